#include "core/pressure/memory_settings.hpp"

#include "tests/catch.hpp"

using namespace rigcast;

namespace {

Rig with_ram(Bytes ram) {
  Rig rig;
  rig.ram.capacity.value = ram;
  return rig;
}

struct Read {
  std::optional<MemorySettings> settings;
  std::optional<Error> error;
};

Read read(std::string_view text) {
  const auto document = TomlDocument::parse(text, "test.toml");
  REQUIRE(document);
  Read out;
  out.settings = read_memory_settings(document->root(), with_ram(64_GiB), 1000);
  out.error = document->error();
  return out;
}

}  // namespace

TEST_CASE("A scenario without memory and timeline has neither", "[pressure]") {
  CHECK_FALSE(read("[model]\nname = \"x\"").settings);
}

TEST_CASE("Memory that is short is described by limit, swap, swappiness and locks", "[pressure]") {
  const Read r = read(
      "[memory]\nlimit = \"48 GiB\"\nswap = \"8 GiB\"\nswap_on = \"zram\"\nswappiness = 10\n"
      "page_cluster = 0\nlock = \"both\"\nin_order = true");
  REQUIRE_FALSE(r.error);
  CHECK(r.settings->limit == 48_GiB);
  CHECK(r.settings->swap == 8_GiB);
  CHECK(r.settings->swap_on == SwapDevice::kZram);
  CHECK(r.settings->swappiness == 10);
  CHECK(r.settings->page_cluster == 0);
  CHECK(r.settings->locks_kv());
  CHECK(r.settings->locks_weights());
  CHECK(r.settings->in_order);
  CHECK(r.settings->timeline.empty());
}

TEST_CASE("What an entry of the timeline leaves out stays as it was", "[pressure]") {
  const Read r = read(
      "[[timeline]]\nat = \"30 min\"\nother = \"2 GiB\"\nsessions = 3\n"
      "[[timeline]]\nat = \"2 h\"\nsession_tokens = 5000\nstream = \"10 MB/s\"");
  REQUIRE_FALSE(r.error);
  const auto& all = r.settings->timeline;
  REQUIRE(all.size() == 3);  // from the start until the first entry as without it
  CHECK(all[0].at.value == 0);
  CHECK(all[0].sessions == 1);
  CHECK(all[0].session_tokens == 1000);
  CHECK(all[1].at.value == 1800);
  CHECK(all[1].other == 2_GiB);
  CHECK(all[2].at.value == 7200);
  CHECK(all[2].other == 2_GiB);
  CHECK(all[2].sessions == 3);
  CHECK(all[2].session_tokens == 5000);
  CHECK(all[2].stream.value == 10e6);
}

TEST_CASE("Memory that cannot be is refused with what would do", "[pressure]") {
  CHECK(read("[memory]\nlimit = \"65 GiB\"").error);
  CHECK(read("[memory]\nswappiness = 201").error);
  CHECK(read("[memory]\nlock = \"all\"").error);
  CHECK(read("[memory]\nswapiness = 10").error);
  CHECK(read("[[timeline]]\nat = \"1 h\"\n[[timeline]]\nat = \"1 h\"").error);
  CHECK(read("[[timeline]]\nat = \"1 h\"\n[[timeline]]\nother = \"1 GiB\"").error);
  CHECK(read("[[timeline]]\nat = \"-1 h\"").error);
}

TEST_CASE("Open sessions are those of a timeline", "[pressure]") {
  CHECK(read("[memory]\nmax_sessions = 4").error);
  const Read r = read("[memory]\nmax_sessions = 4\n[[timeline]]\nsessions = 8");
  REQUIRE_FALSE(r.error);
  CHECK(r.settings->max_sessions == 4);
}

TEST_CASE("Locks, orders and sessions that a runtime does not have are refused", "[pressure]") {
  const auto error = [](std::string_view text, const MemoryUser& user) {
    const auto document = TomlDocument::parse(text, "test.toml");
    REQUIRE(document);
    const auto settings = read_memory_settings(document->root(), with_ram(64_GiB), 1000);
    REQUIRE(settings);
    check_memory_settings(document->root(), *settings, user);
    return document->error();
  };
  const MemoryUser own{"rigcast", true, true, 4096, false};
  MemoryUser other = own, copies = own, serves = own;
  other.is_own = false;
  copies.maps_weights = false;
  serves.has_load = true;
  const char* const in_order = "[memory]\nin_order = true";
  CHECK_FALSE(error(in_order, own));
  CHECK(error(in_order, other));
  CHECK(error(in_order, copies));
  CHECK(error("[memory]\nlock = \"kv\"", other));
  CHECK_FALSE(error("[memory]\nlock = \"weights\"", other));
  CHECK(error("[[timeline]]\nsession_tokens = 4097", own));
  const char* const hours = "[[timeline]]\nsessions = 1\n[[timeline]]\nat = \"1 h\"";
  CHECK_FALSE(error(hours, own));
  CHECK(error(hours, serves));
  CHECK_FALSE(error("[[timeline]]\nother = \"1 GiB\"", serves));
}
