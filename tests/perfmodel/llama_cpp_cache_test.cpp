// The caches that llama.cpp allocates, in closed form.
#include <algorithm>

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/serial_time.hpp"
#include "perfmodel/step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;

namespace {

double cache(const Settings& settings) {
  const Scenario s = scenario(settings);
  const MemoryPlan plan = plan_memory(s, resolve_placement(s), s.workload.context);
  double bytes = 0;
  for (const DeviceMemory& d : plan.devices) bytes += d.kv.value;
  return bytes;
}

// Gemma 3: five layers of six have a window of 1,024 tokens; F16.
double gemma_3(double layers, double row, double context, double ubatch) {
  const double full = std::floor(layers / 6), windowed = layers - full;
  const double cells = std::ceil(std::min(context, 1024 + ubatch) / 256) * 256;
  return 2 * row * (full * std::ceil(context / 256) * 256 + windowed * cells);
}

}  // namespace

TEST_CASE("A window's cache also holds an ubatch, in cells of 256", "[memory][llama.cpp]") {
  for (const double context : {1024, 1500, 4096, 32768})
    for (const double ubatch : {256, 512, 1000, 2048}) {
      const auto settings = [&](const char* model) {
        return Settings{{"model.name", model},
                        {"workload.context", std::to_string(int(context))},
                        {"workload.prompt_tokens", "100"},
                        {"workload.output_tokens", "100"},
                        {"placement.gpu_layers", "0"},
                        {"runtime.ubatch", std::to_string(int(ubatch))}};
      };
      INFO(context << " tokens, ubatch " << ubatch);
      // Rows of 8 heads of 256 values, and of 16 heads of 128, for keys and again for values.
      CHECK(cache(settings("gemma-3-12b")) == gemma_3(48, 2 * 8 * 256, context, ubatch));
      CHECK(cache(settings("gemma-3-27b")) == gemma_3(62, 2 * 16 * 128, context, ubatch));
    }
}

TEST_CASE("A recurrent state is one for a slot, whatever the context", "[memory][llama.cpp]") {
  const auto at = [](const char* context) {
    return cache({{"model.name", "qwen3-next-80b-a3b"},
                  {"placement.gpu_layers", "0"},
                  {"rig.ram_capacity", "256 GiB"},
                  {"workload.context", context}});
  };
  const Scenario s = scenario({{"model.name", "qwen3-next-80b-a3b"}});
  double states = 0, per_token = 0;
  for (int l = 0; l < s.model.layers; ++l) {
    states += state_bytes(s.model, l);
    per_token += kv_bytes_per_token(s.model, l, {});
  }
  REQUIRE(states > 0);
  CHECK(at("2048") == states + 2048 * per_token);
  CHECK(at("8192") == states + 8192 * per_token);
}

TEST_CASE("llama.cpp gives no meaning to the windows of some architectures",
          "[memory][llama.cpp]") {
  const Scenario s = scenario({{"model.name", "mistral-7b-v0.1"}});
  CHECK(!s.model.window);
  CHECK(std::ranges::any_of(s.warnings, [](const std::string& warning) {
    return warning.find("ignores the window of 4,096") != std::string::npos;
  }));
  CHECK(scenario({{"model.name", "mistral-7b-v0.1"}, {"runtime.name", "rigcast"}}).model.window);
  CHECK(scenario({{"model.name", "gemma-3-12b"}}).model.window);
  // Builds of before windows had a cache of their own.
  const auto of_build = [](const char* build) {
    return scenario({{"model.name", "gemma-3-12b"}, {"runtime.build", build}}).model.window;
  };
  CHECK_FALSE(of_build("2025-04"));
  CHECK(of_build("2025-06"));
  // ik_llama.cpp never had one, whatever the build.
  CHECK_FALSE(
      scenario({{"model.name", "gemma-3-12b"}, {"runtime.name", "ik-llama.cpp"}}).model.window);
}

TEST_CASE("A GPU has the matrix units that the backend multiplies with", "[gpu][llama.cpp]") {
  const auto gpu_of = [](const char* gpu, const char* backend, const char* build,
                         const char* units = "true") {
    return scenario({{"rig.gpu", "[\"" + std::string(gpu) + "\"]"},
                     {"runtime.backend", backend},
                     {"runtime.build", build},
                     {"runtime.matrix_units", units}})
        .rig.gpus.front();
  };
  const GpuPart cuda = gpu_of("rtx-4090", "cuda", "2025-12");
  CHECK((cuda.fp16_tensor && cuda.int8_tensor));
  const GpuPart vulkan = gpu_of("rtx-4090", "vulkan", "2025-12");
  CHECK((vulkan.fp16_tensor && !vulkan.int8_tensor));
  CHECK_FALSE(gpu_of("rtx-4090", "vulkan", "2025-12", "false").fp16_tensor);
  CHECK_FALSE(gpu_of("rtx-4090", "vulkan", "2024-06").fp16_tensor);
  CHECK_FALSE(gpu_of("v100-sxm2-16gb", "vulkan", "2025-12").fp16_tensor);
  CHECK_FALSE(gpu_of("arc-a770-16gb", "vulkan", "2025-12").fp16_tensor);
  CHECK(gpu_of("arc-b580", "vulkan", "2025-12").fp16_tensor);
  // Of quantized weights ROCm's kernels came later to the matrix units than its library.
  const GpuPart older = gpu_of("rx-7900-xtx", "rocm", "2025-08");
  CHECK((older.fp16_tensor && !older.int8_tensor));
  CHECK(gpu_of("rx-7900-xtx", "rocm", "2026-02").int8_tensor);
  CHECK(gpu_of("mi300x", "rocm", "2025-08").int8_tensor);
  CHECK_FALSE(gpu_of("mi300x", "rocm", "2025-06").int8_tensor);
  CHECK(gpu_of("rtx-4090", "cuda", "2025-06").int8_tensor);
}

TEST_CASE("INT8 matrix units make no prompt of a dense model slower", "[gpu][llama.cpp]") {
  // llama.cpp multiplies with them only as far as they are no slower than the library: PR 17576.
  const RuntimeProfile& llama_cpp = scenario().runtime;
  REQUIRE(llama_cpp.int8_matrix_units.size() >= 4);
  for (const MatrixUnits& since : llama_cpp.int8_matrix_units)
    for (const auto& [architecture, card] : {std::pair{"rdna4", "rx-9070-xt-16gb"},
                                             {"rdna3", "rx-7900-xtx"},
                                             {"rdna3.5", "strix-halo-64gb"},
                                             {"cdna1", "mi100"},
                                             {"cdna2", "mi210"},
                                             {"cdna3", "mi300x"},
                                             {"cdna4", "mi355x"}}) {
      if (std::ranges::count(since.architectures, architecture) == 0) continue;
      for (const char* quant : {"Q4_0", "Q8_0", "Q2_K", "Q4_K_M", "Q6_K"})
        for (const char* tokens : {"32", "64", "128", "512"}) {
          const bool is_unified = std::string_view(architecture) == "rdna3.5";
          Scenario s = scenario({{"rig.gpu", "[\"" + std::string(card) + "\"]"},
                                 {"rig.ram", is_unified ? "64 GiB" : "2xddr4-3200:64GiB"},
                                 {"runtime.backend", "rocm"},
                                 {"model.quant", quant},
                                 {"workload.prompt_tokens", tokens}});
          REQUIRE(s.rig.gpus.front().int8_tensor);
          const Seconds with = SerialForecast(s).prompt();
          s.rig.gpus.front().int8_tensor.reset();
          INFO(card << ", " << quant << ", " << tokens << " tokens");
          CHECK(with <= SerialForecast(s).prompt());
        }
    }
}

namespace {

std::vector<StepOp> attention_of_a_token(const Scenario& s, TokenCount cached) {
  const Placement placement = resolve_placement(s);
  const MemoryPlan memory = plan_memory(s, placement, s.workload.context);
  const Batch batch{std::vector<Sequence>{{cached, 1}}, s.runtime.memory.kv_padding};
  std::vector<StepOp> out;
  for (const StepOp& op : decode_step(s, placement, memory, batch).ops)
    if (op.kind == ActivityKind::kAttention || op.kind == ActivityKind::kCacheAttention)
      out.push_back(op);
  return out;
}

}  // namespace

TEST_CASE("With flash attention a GPU copies a cache in RAM in whole cells", "[kv][llama.cpp]") {
  const Scenario s = scenario({{"kv.policy", "ram"}});
  const double per_token = kv_bytes_per_token(s.model, 0, s.kv.types);
  for (const auto& [cached, cells] :
       {std::pair<TokenCount, double>{100, 256}, {1000, 1024}, {1024, 1280}}) {
    const auto ops = attention_of_a_token(s, cached);
    REQUIRE(int(ops.size()) == s.model.layers);
    for (const StepOp& op : ops) {
      CHECK(op.device == 0);
      REQUIRE(op.fetch);
      CHECK(op.fetch->pageable);
      CHECK(op.fetch->bytes.value == Approx(cells * per_token));
      CHECK(op.fetch->start == s.runtime.decode.crossing.value);
    }
  }
}

TEST_CASE("Without flash attention the CPU attends over a cache in RAM", "[kv][llama.cpp]") {
  const Scenario s = scenario({{"kv.policy", "ram"}, {"runtime.flash_attention", "false"}});
  const auto ops = attention_of_a_token(s, 1000);
  REQUIRE(int(ops.size()) == 2 * s.model.layers);
  CHECK(ops[0].device == 0);
  CHECK(ops[1].device == kHost);
  CHECK_FALSE(ops[1].fetch);
}
