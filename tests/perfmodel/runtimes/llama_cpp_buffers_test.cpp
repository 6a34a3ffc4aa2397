// Buffers of llama.cpp, against its allocations by arithmetic.
#include "perfmodel/runtimes/llama_cpp_buffers.hpp"

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::with;

namespace {

constexpr double kMiB = 0x1p20;
// Llama 3.1 8B: 32 layers of 4,096, 8 KV heads of 128, 128,256 tokens; the output matrix of
// Q4_K_M is Q6_K, 210 bytes for 256 weights.
constexpr double kHidden = 4096, kVocabulary = 128256, kValues = 8 * 128;
constexpr double kHead = kVocabulary * kHidden * 210 / 256;

MemoryPlan plan_of(const Settings& settings, const char* prompt) {
  const Scenario s = scenario(
      with({{"workload.prompt_tokens", prompt}, {"workload.output_tokens", "1"}}, settings));
  return plan_memory(s, resolve_placement(s), s.workload.context);
}

// Prompts of 100 tokens are offloaded.
double gpu_buffer(const Settings& settings, const char* prompt = "100") {
  const MemoryPlan plan = plan_of(settings, prompt);
  return (plan.devices.front().activations + plan.devices.front().staging).value;
}

double host_buffers(const Settings& settings, const char* prompt = "100") {
  const MemoryPlan plan = plan_of(settings, prompt);
  return (plan.devices.back().activations + plan.devices.back().staging).value;
}

// Tokens, positions, outputs, and the cells of keys and of values.
double inputs(double rows, double cells) {
  return rows * (4 * kHidden + 3 * 4 + 2 * 8 + 4 * cells);
}

constexpr double kOutput = 4 * kVocabulary;

// Before the head was the first of the layers on a GPU.
const Settings kHeadOnHost = {{"runtime.build", "2025-11"}, {"placement.gpu_layers", "16"}};

}  // namespace

TEST_CASE("A host's output matrix is multiplied in the GPU's compute buffer",
          "[memory][llama.cpp]") {
  for (const char* layers : {"0", "8", "32"}) {
    const auto at = [&](const char* context) {
      return gpu_buffer(
          with(kHeadOnHost, {{"placement.gpu_layers", layers}, {"workload.context", context}}));
    };
    INFO(layers << " layers");
    // llama.cpp b7347 reports 669.48 MiB for 512 tokens and 475.60 MiB for 128.
    CHECK(at("512") == Approx(kHead + 512 * 4 * (kHidden + kVocabulary)));
    CHECK(at("512") == Approx(669.48 * kMiB).margin(0.01 * kMiB));
    CHECK(at("128") == Approx(475.60 * kMiB).margin(0.01 * kMiB));
  }
  // With the head there, the logits alone are as large.
  CHECK(gpu_buffer({{"workload.context", "512"}}) == Approx(512 * 4 * (kHidden + kVocabulary)));
}

TEST_CASE("Batches of fewer than 32 tokens are multiplied where the weights are",
          "[memory][llama.cpp]") {
  const auto at = [](const char* context) {
    return with(kHeadOnHost, {{"workload.context", context}});
  };
  // The prompt with one token of output fills the context.
  CHECK(gpu_buffer(at("33"), "32") - gpu_buffer(at("31"), "30") > kHead);
  // b7347 reports 8.08 MiB for 16 tokens.
  CHECK(host_buffers(at("16"), "15") == Approx(16 * 4 * (kHidden + kVocabulary) + kOutput));
  CHECK(host_buffers(at("33"), "32") == Approx(inputs(33, 256) + kOutput));
}

TEST_CASE("Without offload of operations the host has the buffer", "[memory][llama.cpp]") {
  const Settings off =
      with(kHeadOnHost, {{"workload.context", "512"}, {"runtime.op_offload", "false"}});
  CHECK(gpu_buffer(off) < kHead);
  CHECK(host_buffers(off) == Approx(512 * 4 * (kHidden + kVocabulary) + kOutput));
}

TEST_CASE("Keys and values in RAM are copied for a prompt's attention on the GPU",
          "[memory][llama.cpp]") {
  // The head is on the GPU, the cache of 31 layers is not.
  const auto at = [](const char* context) {
    return gpu_buffer({{"placement.gpu_layers", "2"}, {"workload.context", context}});
  };
  // One layer's cache at a time, F16, which is larger than the logits, and a mask of 2 bytes.
  const double cells = 131072 - 65536;
  CHECK(at("131072") - at("65536") == Approx(cells * (2 * 2 * kValues + 2 * 512)));
}

TEST_CASE("A batch's inputs are in the host's compute buffer", "[memory][llama.cpp]") {
  const auto at = [](const Settings& more) { return host_buffers(more); };
  // b7347 reports 9.01, 24.01 and 196.11 MiB.
  CHECK(at({{"workload.context", "512"}}) == Approx(inputs(512, 512) + kOutput));
  CHECK(inputs(512, 512) == Approx(9.01 * kMiB).margin(0.01 * kMiB));
  CHECK(at({{"workload.context", "8192"}}) == Approx(inputs(512, 8192) + kOutput));
  const Settings large{
      {"runtime.ubatch", "4096"}, {"runtime.batch", "4096"}, {"workload.context", "8208"}};
  CHECK(at(large) == Approx(inputs(4096, 8448) + kOutput));
  CHECK(inputs(4096, 8448) == Approx(196.11 * kMiB).margin(0.01 * kMiB));
}

TEST_CASE("Without flash attention every value has an index", "[memory][llama.cpp]") {
  const auto at = [](const char* flash) {
    return host_buffers({{"workload.context", "512"}, {"runtime.flash_attention", flash}});
  };
  CHECK(at("false") - at("true") == Approx(512 * 8 * (kValues - 1)));
}

TEST_CASE("Layers with a window have a mask of their own", "[memory][llama.cpp]") {
  const Scenario s = scenario({{"model.name", "gemma-3-12b"}});
  const auto cells = [&](int layer) {
    return TokenCount(s.model.sees_all_tokens(layer) ? 8192 : 1536);
  };
  CHECK(llama_cpp_inputs(s, 512, cells).value ==
        Approx(512 * (4 * 3840.0 + 3 * 4 + 2 * 2 * 8 + 4 * (8192 + 1536))));
}
