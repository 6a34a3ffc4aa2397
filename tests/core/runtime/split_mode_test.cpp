#include "core/runtime/split_mode.hpp"

#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using fixtures::contains;

namespace {

std::vector<SplitMode> modes_of(const std::string& text, std::string* error = nullptr) {
  const auto document = TomlDocument::parse(text, "modes.toml");
  REQUIRE(document);
  auto modes = read_split_modes(document->root());
  if (error && document->error()) *error = document->error()->text();
  return modes;
}

std::vector<SplitMode> modes_of_runtime(const char* id) {
  const auto file = fixtures::catalogue().runtime_file(id);
  REQUIRE(file);
  const auto profile = fixtures::catalogue().runtime(*file);
  REQUIRE(profile);
  return profile->split_modes;
}

}  // namespace

TEST_CASE("A split mode is what its table says, and without figures 16 bits in a graph",
          "[split]") {
  const auto modes = modes_of(
      "[a]\nsince = 2026.5\nbackends = ['cuda', 'rocm']\nexcept = ['mamba']\nneeds_flash = true\n"
      "quantized_cache = false\nfits = false\nelement = 4\nbatch_element = 2\nlaunches = 3\n"
      "one_thread = true\nhost_latency = '39 us'\nhost_latency_until = 2026.9\n"
      "[b]\nsince = 2025\narchitectures = ['llama']\n[c]\nsince = 2100\n");
  REQUIRE(modes.size() == 2);  // no build has the third
  const SplitMode* a = find_split_mode(modes, "a");
  REQUIRE(a);
  CHECK(a->backends == std::vector{Backend::kCuda, Backend::kRocm});
  CHECK((a->needs_flash && !a->quantized_cache && !a->fits && a->one_thread));
  CHECK((a->element.value == 4 && a->batch_element.value == 2 && a->launches.value == 3));
  CHECK(a->graphs_since.value == 2026.5);
  CHECK(a->host_latency->value == 39_us);
  CHECK((a->has_architecture("llama") && !a->has_architecture("mamba")));
  const SplitMode* b = find_split_mode(modes, "b");
  REQUIRE(b);
  CHECK((b->element.value == 2 && b->batch_element.value == 2 && b->launches.value == 0));
  CHECK((b->has_architecture("llama") && !b->has_architecture("qwen3")));
  CHECK(find_split_mode(modes, "layer") == nullptr);
}

TEST_CASE("Tables of split modes that say nothing sensible are refused with their key", "[split]") {
  const auto error_of = [](const std::string& text) {
    std::string error;
    modes_of(text, &error);
    return error;
  };
  CHECK(contains(error_of("[a]\nbackends = ['cuda']\n"), "since"));
  CHECK(contains(error_of("[a]\nsince = 2025\nbackends = ['opencl']\n"), "no backend named"));
  CHECK(contains(error_of("[a]\nsince = 2025\nexcept = ['a']\narchitectures = ['b']\n"),
                 "keep one of the two"));
  CHECK(contains(error_of("[layer]\nsince = 2025\n"), "every runtime has this one"));
  CHECK_FALSE(error_of("[a]\nsince = 2025\nelement = nan\n").empty());
  CHECK_FALSE(error_of("[a]\nsince = 2025\nelement = 900\n").empty());
  CHECK_FALSE(error_of("[a]\nsince = 2025\nwaits = 1\n").empty());
}

TEST_CASE("Programs that build on llama.cpp have split modes of their own, or none", "[split]") {
  CHECK(find_split_mode(modes_of_runtime("llama.cpp"), "tensor"));
  CHECK_FALSE(find_split_mode(modes_of_runtime("llama.cpp"), "row")->refused.empty());
  CHECK(find_split_mode(modes_of_runtime("ik-llama.cpp"), "graph"));
  CHECK_FALSE(find_split_mode(modes_of_runtime("ik-llama.cpp"), "tensor"));
  for (const char* id : {"ollama", "llamafile", "rigcast", "transformers", "vllm"})
    CHECK(modes_of_runtime(id).empty());
}
