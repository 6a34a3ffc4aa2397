// What is tried where memory is short, and what of it is told.
#include <fmt/format.h>

#include <algorithm>

#include "sim/advice.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

using namespace rigcast;

namespace {

// Weights of 4.9 GB and a cache of 1 GB on a CPU.
constexpr const char* kBase = R"(
  [rig]
  gpu = []
  cpu = "ryzen-7-5800x"
  ram = "2xddr4-3200:64GiB"
  ssd = "samsung-990-pro"
  os = "linux"
  ram_reserved = "1 GiB"
  [model]
  name = "llama-3.1-8b"
  quant = "Q4_K_M"
  [runtime]
  name = "rigcast"
  [workload]
  prompt_tokens = 7000
  output_tokens = 64
  context = 8192
)";

struct Tried {
  explicit Tried(const std::string& memory)
      : document(*TomlDocument::parse(kBase + memory, "scenario of a test")),
        report(sim::simulate(std::make_shared<const Scenario>(
                                 *make_scenario(document, Catalogue(test::source_dir()))),
                             {})),
        advice(sim::try_alternatives(document, Catalogue(test::source_dir()), report,
                                     sim::alternatives(*report.scenario, report))) {}

  // The advice of a change; nullptr: it was not tried, or does not help.
  const Advice* of(std::string_view change) const {
    const auto at = std::ranges::find_if(
        advice, [&](const auto& t) { return std::string_view(t.advice.change) == change; });
    return at == advice.end() ? nullptr : &at->advice;
  }

  TomlDocument document;
  Report report;
  std::vector<sim::TriedAlternative> advice;
};

}  // namespace

TEST_CASE("Who has locked the weights is told what the cache alone would give", "[pressure]") {
  // The weights take 4.6 GiB of the 5.2 that there are, and the cache 0.9: it is swapped.
  const Tried locked(
      "[memory]\nlock = \"weights\"\nswap = \"8 GiB\"\n[[timeline]]\nother = \"57.6 GiB\"\n");
  REQUIRE(locked.report.fits);
  REQUIRE(locked.report.paging);
  REQUIRE(locked.report.paging->reclaim == "swap");
  const Advice* cache = locked.of("lock the KV cache alone");
  REQUIRE(cache);
  CHECK(cache->gain > 0);
}

TEST_CASE("What does not run is told what of memory would let it", "[pressure]") {
  const Tried locked("[memory]\nlimit = \"5 GiB\"\nlock = \"weights\"\n");
  REQUIRE_FALSE(locked.report.fits);
  CHECK(locked.of("lock nothing"));
  const Advice* limit = locked.of("a limit of 10.0 GiB");
  REQUIRE(limit);
  CHECK(limit->tokens_per_s > 0);
}

TEST_CASE("Advice on hours tells where more swap would keep the program alive", "[pressure]") {
  const Tried ended(
      "[memory]\n[[timeline]]\nsessions = 1\nsession_tokens = 8000\nother = \"10 GiB\"\n"
      "[[timeline]]\nat = \"1 h\"\nsessions = 70\n");
  REQUIRE(ended.report.hours);
  REQUIRE(ended.report.hours->points.back().reclaim == "full");
  const Advice* swap = ended.of("swap of 64 GiB");
  REQUIRE(swap);
  CHECK(swap->tokens_per_s > 0);
}
