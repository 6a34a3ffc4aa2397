#include "core/scenario/layer_sharing.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using fixtures::contains;
using fixtures::made;

namespace {

std::string text_of(const std::string& mode, const std::string& more = "",
                    const std::string& model = "llama-3.1-8b",
                    const std::string& gpus = "'2xrtx-3090'") {
  return "[rig]\ngpu = [" + gpus + "]\n[model]\nname = '" + model +
         "'\nquant = 'Q4_K_M'\n[placement]\nsplit_mode = '" + mode + "'\n" + more;
}

}  // namespace

TEST_CASE("GPUs of a split mode are one with the memory and the rates of all", "[split]") {
  const Scenario s = made(text_of("tensor", "", "llama-3.1-8b", "'rtx-3090', 'rtx-3090'"));
  REQUIRE(s.rig.gpus.size() == 1);
  const GpuPart& both = s.rig.gpus.front();
  CHECK(both.memory.value == 48_GiB);
  CHECK(s.placement.split_mode == "tensor");
  CHECK(s.placement.gpu_layers == s.model.layers + 1);
  REQUIRE(both.shared);
  // Sums of F32, of BF16 where there are many; one thread launches for both.
  CHECK((both.shared->element == 4 && both.shared->batch_element == 2));
  CHECK((both.shared->launchers == 2 && both.shared->graphs));
  const Scenario by_layer = made(text_of("layer", "", "llama-3.1-8b", "'rtx-3090', 'rtx-3090'"));
  CHECK(by_layer.rig.gpus.size() == 2);
}

TEST_CASE("One GPU shares nothing: every split mode is that by layers", "[split]") {
  const Scenario s = made(text_of("tensor", "", "llama-3.1-8b", "'rtx-3090'"));
  CHECK(s.placement.split_mode == kSplitByLayer);
  CHECK_FALSE(s.rig.gpus.front().shared);
  REQUIRE_FALSE(s.warnings.empty());
  CHECK(std::ranges::any_of(s.warnings, [](const std::string& warning) {
    return contains(warning, "without split mode tensor");
  }));
  CHECK_FALSE(s.placement.gpu_layers);
}

TEST_CASE("More GPUs than heads of KV have copies of them", "[split]") {
  const auto copies = [](int gpus) {
    const std::string text =
        text_of("tensor", "", "qwen2.5-1.5b", "'" + std::to_string(gpus) + "xrtx-3090'");
    return made(text).rig.gpus.front().shared->kv_copies;
  };
  CHECK(made(text_of("layer", "", "qwen2.5-1.5b")).model.kv_heads == 2);
  CHECK(copies(2) == 1);
  CHECK(copies(4) == 2);
}

TEST_CASE("Sums through the host's memory take what the build's library takes", "[split]") {
  const auto latency = [](const std::string& more) {
    return made(text_of("tensor", more)).rig.gpus.front().shared->exchange.latency.value;
  };
  CHECK(latency("[runtime]\nbuild = '2026-04'\n") == 39_us);
  CHECK(latency("[runtime]\nbuild = '2026-08'\n") == 15_us);
  CHECK(latency("") == 15_us);
  const auto stated = made(
      "[rig]\ngpu = ['2xrtx-3090']\nall_reduce_latency = '7 us'\n[model]\nname = "
      "'llama-3.1-8b'\n[placement]\nsplit_mode = 'tensor'\n[runtime]\nbuild = '2026-04'\n");
  CHECK(stated.rig.gpus.front().shared->exchange.latency.value == 7_us);
}

TEST_CASE("What a split mode does not take is refused with the reason", "[split]") {
  const auto refusal = [](const std::string& mode, const std::string& more = "",
                          const std::string& model = "llama-3.1-8b",
                          const std::string& gpus = "'2xrtx-3090'") {
    return fixtures::error_of(text_of(mode, more, model, gpus));
  };
  CHECK(refusal("tensor").empty());
  CHECK(contains(refusal("row"), "a wait after every one of them"));
  CHECK(contains(refusal("row"), "has layer, tensor"));
  CHECK(contains(refusal("graph"), "no split mode \"graph\" of llama.cpp"));
  CHECK(contains(refusal("tensor", "", "deepseek-v2-lite"), "architecture deepseek2"));
  CHECK(contains(refusal("tensor", "[runtime]\nbuild = '2025-12'\n"), "have no split mode tensor"));
  CHECK(contains(refusal("tensor", "[kv]\ntype_k = 'q8_0'\n"), "takes no quantized cache"));
  CHECK(contains(refusal("tensor", "[kv]\npolicy = 'ram'\n"), "the cache on GPUs"));
  CHECK(
      contains(refusal("tensor", "[runtime]\nflash_attention = false\n"), "needs flash attention"));
  CHECK(contains(refusal("tensor", "[runtime]\nbackend = 'vulkan'\n"), "not forecast with vulkan"));
  CHECK(contains(refusal("tensor", "gpu_layers = 20\n"), "all layers on GPUs"));
  CHECK(contains(refusal("tensor", "cpu_ffn_layers = 2\n"), "all layers on GPUs"));
  CHECK(contains(refusal("tensor", "tensor_split = [3, 1]\n"), "even shares alone"));
  CHECK(refusal("tensor", "tensor_split = [1, 1]\n").empty());
  CHECK(contains(refusal("tensor", "", "llama-3.1-8b", "'rtx-3090', 'rtx-4090'"), "one kind"));
  CHECK(contains(refusal("tensor", "", "llama-3.1-8b", "'3xrtx-3090'"), "cannot be divided"));
  CHECK(contains(refusal("tensor", "", "llama-3.2-3b", "'3xrtx-3090'"),
                 "8 heads of KV cannot be divided"));
  CHECK(contains(refusal("tensor", "tensor_parallel = 2\n"), "--split-mode tensor shares"));
  const std::string ik = "[runtime]\nname = 'ik-llama.cpp'\n";
  CHECK(refusal("graph", ik).empty());
  CHECK(refusal("graph", ik + "[kv]\ntype_k = 'q8_0'\ntype_v = 'q8_0'\n").empty());
  CHECK(contains(refusal("graph", ik, "gemma-2-9b"), "architecture gemma2"));
  CHECK(contains(refusal("tensor", "[runtime]\nname = 'ollama'\n"), "Ollama has layer"));
}
