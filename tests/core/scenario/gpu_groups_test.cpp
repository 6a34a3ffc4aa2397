// How the GPUs of a server with blocks are grouped: shared layers, stages of a pipeline, engines.
#include <algorithm>
#include <numeric>

#include "core/scenario/layer_sharing.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using fixtures::contains;
using fixtures::made;

namespace {

std::string text_of(int gpus, const std::string& placement, const std::string& runtime = "vllm",
                    const std::string& model = "llama-3.1-8b", const std::string& more = "") {
  return "[rig]\ngpu = ['" + std::to_string(gpus) + "xrtx-3090']\n[model]\nname = '" + model +
         "'\nquant = 'BF16'\n[runtime]\nname = '" + runtime + "'\n[placement]\n" + placement + more;
}

}  // namespace

TEST_CASE("Layers of stages are as vLLM divides them, the head behind the last", "[groups]") {
  CHECK(layers_of_stages(32, 1) == std::vector<double>{33});
  CHECK(layers_of_stages(32, 2) == std::vector<double>{16, 17});
  CHECK(layers_of_stages(32, 3) == std::vector<double>{11, 11, 11});
  CHECK(layers_of_stages(61, 4) == std::vector<double>{15, 15, 16, 16});
  CHECK(layers_of_stages(5, 4) == std::vector<double>{1, 1, 2, 2});
  for (int stages = 1; stages <= kMaxStages; ++stages) {
    const auto layers = layers_of_stages(80, stages);
    CHECK(std::accumulate(layers.begin(), layers.end(), 0.0) == 81);
    CHECK(*std::ranges::min_element(layers) >= double(80 / stages));
  }
}

TEST_CASE("Each stage of a pipeline is a GPU, or GPUs that share its layers", "[groups]") {
  const Scenario two = made(text_of(2, "pipeline_parallel = 2\n"));
  CHECK(two.rig.gpus.size() == 2);
  CHECK_FALSE(two.rig.gpus.front().shared);
  REQUIRE(two.rig.between_stages);
  CHECK((two.placement.groups.tensor == 1 && two.placement.groups.pipeline == 2));
  CHECK(two.scheduler->stages == 2);
  const Scenario four = made(text_of(4, "pipeline_parallel = 2\n"));
  REQUIRE(four.rig.gpus.size() == 2);
  for (const GpuPart& gpu : four.rig.gpus) {
    REQUIRE(gpu.shared);
    CHECK(gpu.shared->gpus == 2);
    CHECK(gpu.memory.value == 48_GiB);
  }
  CHECK(four.rig.links.size() == 2);
  const Scenario one = made(text_of(4, ""));
  CHECK(one.rig.gpus.size() == 1);
  CHECK_FALSE(one.rig.between_stages);
}

TEST_CASE("An engine has its share of the GPUs", "[groups]") {
  const Scenario s = made(text_of(4, "data_parallel = 2\n"));
  REQUIRE(s.rig.gpus.size() == 1);
  CHECK(s.rig.gpus.front().shared->gpus == 2);
  CHECK((s.placement.groups.tensor == 2 && s.placement.groups.data == 2));
  CHECK(std::ranges::any_of(s.warnings,
                            [](const auto& text) { return contains(text, "2 engines"); }));
  const Scenario single = made(text_of(3, "data_parallel = 3\n", "sglang"));
  CHECK_FALSE(single.rig.gpus.front().shared);
  const Scenario all = made(text_of(8, "data_parallel = 2\npipeline_parallel = 2\n"));
  CHECK(all.placement.groups.tensor == 2);
  CHECK(all.rig.gpus.size() == 2);
}

TEST_CASE("GPUs that share a layer may have whole experts", "[groups]") {
  const Scenario s = made(text_of(4, "expert_parallel = true\n", "vllm", "gpt-oss-20b"));
  CHECK(s.placement.groups.whole_experts);
  CHECK(s.rig.gpus.front().shared->whole_experts);
  const Scenario parts = made(text_of(4, "", "vllm", "gpt-oss-20b"));
  CHECK_FALSE(parts.rig.gpus.front().shared->whole_experts);
}

TEST_CASE("Groups that nobody has, or that are not forecast, are refused with the reason",
          "[groups]") {
  const auto refusal = [](int gpus, const std::string& placement,
                          const std::string& runtime = "vllm",
                          const std::string& model = "llama-3.1-8b", const std::string& more = "") {
    return fixtures::error_of(text_of(gpus, placement, runtime, model, more));
  };
  CHECK(contains(refusal(2, "pipeline_parallel = 3\n"), "3 GPUs, the rig has 2"));
  CHECK(contains(refusal(3, "pipeline_parallel = 2\n"), "the others would idle"));
  CHECK(contains(refusal(2, "pipeline_parallel = 2\n", "sglang"), "at once is not forecast"));
  CHECK(contains(refusal(2, "pipeline_parallel = 2\n", "tensorrt-llm"), "is not forecast"));
  CHECK(contains(refusal(2, "data_parallel = 2\n", "tensorrt-llm"), "behind one front"));
  CHECK(contains(refusal(2, "data_parallel = 2\n", "vllm", "qwen3-30b-a3b"), "experts"));
  CHECK(refusal(2, "data_parallel = 2\n", "sglang", "gpt-oss-20b").empty());
  CHECK(contains(refusal(2, "pipeline_parallel = 2\ntensor_split = [1, 3]\n"), "stages"));
  CHECK(contains(refusal(2, "pipeline_parallel = 2\n", "vllm", "llama-3.1-8b",
                         "[scheduler]\nram_cache = '8 GiB'\n"),
                 "several steps at once"));
  CHECK(contains(refusal(2, "expert_parallel = true\n"), "has no experts"));
  CHECK(contains(refusal(1, "expert_parallel = true\n", "vllm", "gpt-oss-20b"), "one GPU has all"));
  CHECK(contains(refusal(2, "expert_parallel = true\n", "sglang", "gpt-oss-20b"), "experts"));
  CHECK(refusal(2, "expert_parallel = true\n", "vllm", "gpt-oss-20b").empty());
  // What to do instead of three GPUs that cannot divide the heads.
  CHECK(contains(refusal(3, ""), "--pipeline-parallel 3"));
  CHECK(refusal(3, "pipeline_parallel = 3\n").empty());
  const std::string gguf =
      "[rig]\ngpu = ['2xrtx-3090']\n[model]\nname = 'llama-3.1-8b'\n[placement]\n";
  CHECK(
      contains(fixtures::error_of(gguf + "pipeline_parallel = 2\n"), "one layer after the other"));
  CHECK(contains(fixtures::error_of(gguf + "data_parallel = 2\n"), "one engine"));
}

TEST_CASE("A pipeline is no way out for GPUs that differ", "[groups]") {
  const auto error = [](const std::string& gpus) {
    return fixtures::error_of("[rig]\ngpu = [" + gpus +
                              "]\n[model]\nname = 'llama-3.1-8b'\nquant = 'BF16'\n"
                              "[runtime]\nname = 'vllm'\n");
  };
  const std::string unlike = error("'rtx-4090', 'rtx-3090'");
  CHECK(contains(unlike, "of one kind alone"));
  CHECK_FALSE(contains(unlike, "--pipeline-parallel"));
  CHECK(contains(error("'3xrtx-3090'"), "--pipeline-parallel 3"));
}
