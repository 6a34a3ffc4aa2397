// The closed-form forecast, compared with the simulator in cases without overlap.
#include "perfmodel/serial_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "perfmodel/resolve_placement.hpp"
#include "sim/decode.hpp"
#include "sim/prefill.hpp"
#include "tests/catch.hpp"
#include "tests/sim/request_steps.hpp"
#include "tests/sim/scenario_fixtures.hpp"
#include "tests/sim/scenario_generator.hpp"

using namespace rigcast;
using namespace rigcast::sim;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::token_step;
using fixtures::with;

namespace {

// Both add the same terms, in another order and some of them by multiplication.
constexpr double kSums = 1e-6;
// Both take some ubatches of a long prompt for all, but other ones.
constexpr double kSampled = 0.01;

struct Case {
  std::string name;
  Settings settings;
};

const Settings kLarge = {{"rig.gpu", "rtx-3090"}, {"rig.ram", "2xddr4-3200:128GiB"}};
const Settings kWide = {{"rig.vram_capacity", "200 GiB"}};

// Settings of the llama.cpp profile, on one GPU.
std::vector<Case> cases() {
  const auto model = [](const char* name, const char* quant, const char* gpu_layers) {
    return Settings{
        {"model.name", name}, {"model.quant", quant}, {"placement.gpu_layers", gpu_layers}};
  };
  return {
      {"resident", {}},
      {"layer split", {{"placement.gpu_layers", "20"}}},
      {"all layers but the head", {{"placement.gpu_layers", "32"}}},
      {"one layer", {{"placement.gpu_layers", "1"}}},
      {"CPU alone", {{"placement.gpu_layers", "0"}}},
      {"CPU alone, no offload of batches",
       {{"placement.gpu_layers", "0"}, {"runtime.op_offload", "false"}}},
      {"split, weights in pinned memory",
       {{"placement.gpu_layers", "20"}, {"runtime.mmap", "false"}}},
      {"KV in RAM", {{"kv.policy", "ram"}}},
      {"KV in RAM, split", {{"kv.policy", "ram"}, {"placement.gpu_layers", "20"}}},
      {"spilled", {{"kv.policy", "spill"}, {"rig.vram_capacity", "5 GiB"}}},
      {"Q8 cache", {{"kv.type_k", "q8_0"}, {"kv.type_v", "q8_0"}}},
      {"Q4 cache, split",
       {{"kv.type_k", "q4_0"}, {"kv.type_v", "q4_0"}, {"placement.gpu_layers", "16"}}},
      {"no flash attention", {{"runtime.flash_attention", "false"}}},
      {"F16 weights", with(kWide, {{"model.quant", "F16"}})},
      {"deep", {{"workload.depth", "5000"}}},
      {"small ubatch", {{"runtime.ubatch", "128"}, {"workload.prompt_tokens", "600"}}},
      {"old build", {{"runtime.build", "2024-01"}}},
      {"build between", {{"runtime.build", "2025-02"}}},
      {"no matrix units", {{"rig.gpu", "gtx-1080-ti"}}},
      {"AMD", {{"rig.gpu", "rx-7900-xtx"}}},
      {"Vulkan", {{"runtime.backend", "vulkan"}}},
      {"MoE", with(kLarge, model("qwen3-30b-a3b", "Q4_K_M", "999"))},
      {"MoE, experts in RAM", with(with(kLarge, model("qwen3-30b-a3b", "Q4_K_M", "999")),
                                   {{"placement.cpu_moe_layers", "48"}})},
      {"MoE, some experts in RAM", with(with(kLarge, model("gpt-oss-20b", "Q8_0", "999")),
                                        {{"placement.cpu_moe_layers", "11"}})},
      {"hybrid", with(kWide, model("qwen3.5-27b", "Q4_K_M", "999"))},
      {"hybrid, split", with(kLarge, model("qwen3.5-27b", "Q4_K_M", "40"))},
      {"hybrid MoE, experts in RAM",
       with(with(kWide, model("qwen3-next-80b-a3b", "Q4_K_M", "999")),
            {{"placement.cpu_moe_layers", "30"}, {"rig.ram", "2xddr5-6000:96GiB"}})},
      {"parallel mixers", with(kWide, model("falcon-h1-0.5b", "Q8_0", "999"))},
      {"window of some layers", with(kLarge, model("gemma-3-12b", "Q4_K_M", "999"))},
      {"window of some layers, split", with(kLarge, model("gemma-3-12b", "Q4_K_M", "17"))},
      {"window of all layers", with(kLarge, model("mistral-7b-v0.1", "Q5_K_M", "999"))},
      {"borrowed caches", with(kLarge, model("gemma-4-e4b", "Q8_0", "999"))},
      {"latent attention", with(kLarge, model("deepseek-v2-lite", "Q4_K_M", "999"))},
      {"fewer experts",
       with(with(kLarge, model("qwen3-30b-a3b", "Q4_K_M", "20")), {{"model.experts_used", "4"}})},
      {"no dot products", {{"rig.gpu", "p100-16gb"}}},
      {"Windows", {{"rig.os", "windows"}, {"placement.gpu_layers", "20"}}},
      {"two sockets", {{"rig.cpu", "2x-xeon-gold-6138"}, {"placement.gpu_layers", "8"}}},
      {"two sockets, spread",
       {{"rig.cpu", "2x-xeon-gold-6138"},
        {"placement.gpu_layers", "8"},
        {"runtime.numa", "distribute"}}},
      {"a BLAS on the CPU",
       {{"placement.gpu_layers", "8"},
        {"runtime.op_offload", "false"},
        {"runtime.cpu_blas", "true"}}},
      {"a card under Metal",
       {{"rig.gpu", "radeon-pro-5600m"}, {"rig.os", "macos"}, {"placement.gpu_layers", "20"}}},
  };
}

const char* kUnified = R"(
  [rig]
  gpu = ["apple-m2-max-38c"]
  ssd = "samsung-990-pro"
  [model]
  name = "llama-3.1-8b"
  quant = "Q4_K_M"
  [placement]
  gpu_layers = 33
  [workload]
  prompt_tokens = 512
  output_tokens = 512
  context = 8192
)";

// The profile's figures may change; what it overlaps is what these tests are about.
void require_serial(const Scenario& s) {
  REQUIRE_FALSE(s.runtime.prefill.overlap);
  REQUIRE(s.runtime.decode.prefetch_depth == 0);
}

void compare_tokens(const Scenario& s) {
  require_serial(s);
  const SerialForecast forecast(s);
  set_machine(s.rig);
  DecodeModel simulated(s, forecast.placement(), Fidelity::kFinal);
  for (const TokenCount cached : {1, 700, 5000, 8000})
    CHECK(forecast.token(cached).value == Approx(simulated.period(cached).value).epsilon(kSums));
}

double simulated_prompt(const Scenario& s, const Placement& p) {
  set_machine(s.rig);
  return forecast_prefill(s, p, Fidelity::kExact).total.value;
}

int classes_of(const std::vector<int>& alike) {
  return int(std::ranges::count_if(alike, [&, l = 0](int first) mutable { return first == l++; }));
}

Scenario model_of(const char* name, const char* quant) {
  return scenario(
      with(kWide, {{"model.name", name}, {"model.quant", quant}, {"placement.gpu_layers", "999"}}));
}

}  // namespace

TEST_CASE("a token's closed form is what the simulator gives", "[serial]") {
  for (const Case& c : cases()) {
    INFO(c.name);
    compare_tokens(scenario(c.settings));
  }
}

TEST_CASE("so it is in unified memory and over two GPUs", "[serial]") {
  compare_tokens(scenario({}, kUnified));
  compare_tokens(scenario({{"placement.gpu_layers", "20"}}, kUnified));
  compare_tokens(scenario({{"rig.gpu", "[\"2xrtx-3060-12gb\"]"}}));
  compare_tokens(scenario({{"rig.gpu", "[\"2xrtx-3060-12gb\"]"}, {"placement.gpu_layers", "20"}}));
}

TEST_CASE("the mean token is the mean of all that the simulator gives", "[serial]") {
  // Cells of 256 tokens are steps in time; 512 tokens are two of them, wherever they begin.
  for (const Case& c : cases()) {
    INFO(c.name);
    const Scenario s = scenario(with(c.settings, {{"workload.output_tokens", "512"}}));
    const SerialForecast forecast(s);
    set_machine(s.rig);
    DecodeModel simulated(s, forecast.placement(), Fidelity::kExact);
    const TokenCount first = s.workload.depth + s.workload.prompt_tokens + 1;
    const auto periods = simulated.periods(first, std::max(first, s.workload.last_position()));
    double sum = 0;
    for (const double period : periods) sum += period;
    CHECK(forecast.mean_token().value == Approx(sum / double(periods.size())).epsilon(kSampled));
  }
}

TEST_CASE("a prompt's closed form is what the simulator gives", "[serial]") {
  for (const char* tokens : {"1", "8", "9", "31", "512", "700", "2300"})
    for (const Case& c : cases()) {
      const Scenario s = scenario(
          with(c.settings, {{"runtime.ubatch", "512"}, {"workload.prompt_tokens", tokens}}));
      INFO(c.name << ", " << tokens << " tokens");
      require_serial(s);
      const SerialForecast forecast(s);
      CHECK(forecast.prompt().value ==
            Approx(simulated_prompt(s, forecast.placement())).epsilon(kSums));
    }
}

TEST_CASE("so it is with builds whose host looks at every cell of a mask", "[serial]") {
  for (const char* build : {"2025-12", "2026-02"})
    for (const double cycles : {2.0, 20.0, 2000.0})
      for (const char* layers : {"33", "20"}) {
        Scenario s = scenario({{"runtime.build", toml_text(build)},
                               {"runtime.ubatch", "512"},
                               {"placement.gpu_layers", layers},
                               {"workload.depth", "1024"},
                               {"workload.prompt_tokens", "2300"}});
        s.runtime.prefill.mask_cycles.value = cycles;
        INFO(build << ", " << cycles << " cycles, " << layers << " layers");
        const SerialForecast forecast(s);
        CHECK(forecast.prompt().value ==
              Approx(simulated_prompt(s, forecast.placement())).epsilon(kSums));
      }
}

TEST_CASE("a long prompt's closed form samples other ubatches", "[serial]") {
  for (const char* tokens : {"3072", "6400", "7900"})
    for (const Case& c : cases()) {
      const Scenario s = scenario(with(c.settings, {{"runtime.ubatch", "512"},
                                                    {"workload.depth", "0"},
                                                    {"workload.output_tokens", "1"},
                                                    {"workload.prompt_tokens", tokens}}));
      INFO(c.name << ", " << tokens << " tokens");
      const SerialForecast forecast(s);
      CHECK(forecast.prompt().value ==
            Approx(simulated_prompt(s, forecast.placement())).epsilon(kSampled));
    }
}

// A limit of the closed form: it does not know which operations and copies share a memory at every
// moment.
constexpr double kSharedByToken = 0.03, kSharedByPrompt = 0.06;

TEST_CASE("on generated scenarios of every runtime the closed form is near the simulator",
          "[serial]") {
  fixtures::ScenarioGenerator generator(7);
  std::vector<double> prompts;
  std::map<RuntimeRules, int> count;
  for (int i = 0; i < 400; ++i) {
    const Scenario s = generator.next();
    INFO(generator.name());
    ++count[s.runtime.rules];
    const SerialForecast forecast(s);
    const Placement& p = forecast.placement();
    set_machine(s.rig);
    DecodeModel simulated(s, p, Fidelity::kFinal);
    const TokenCount at = s.workload.last_position();
    const bool shares = overlaps(token_step(s, p, simulated.memory(), at));
    CHECK(forecast.token(at).value ==
          Approx(simulated.period(at).value).epsilon(shares ? kSharedByToken : kSums));
    const double prompt = simulated_prompt(s, p);
    CHECK(forecast.prompt().value == Approx(prompt).epsilon(kSharedByPrompt));
    prompts.push_back(std::abs(forecast.prompt().value / prompt - 1));
  }
  for (const auto& [rules, n] : count) {
    INFO(name(rules));
    CHECK(n > 20);
  }
  CHECK(count.size() == 3);
  // Of nine prompts in ten it leaves out next to nothing.
  std::ranges::sort(prompts);
  CHECK(prompts[prompts.size() * 9 / 10] < kSampled);
}

TEST_CASE("figures of the runtime may change under a closed form", "[serial]") {
  Scenario s = scenario();
  const SerialForecast forecast(s);
  const double token = forecast.token(1000).value, prompt = forecast.prompt().value;
  s.runtime.decode.token.value += 1_ms;
  CHECK(forecast.token(1000).value == Approx(token + 1e-3).epsilon(kSums));
  CHECK(forecast.prompt().value == Approx(prompt + 1e-3).epsilon(kSums));  // one ubatch
  for (auto& [name, gpu] : s.runtime.gpu) gpu.read.value /= 2;
  CHECK(forecast.token(1000).value > token + 1e-3);
}

TEST_CASE("a closed form made before figures changed is one made after", "[serial]") {
  for (const Case& c : cases()) {
    INFO(c.name);
    Scenario s =
        scenario(with(c.settings, {{"runtime.ubatch", "512"}, {"workload.prompt_tokens", "700"}}));
    const SerialForecast before(s);
    const double token = before.token(1000).value;
    RuntimeProfile& r = s.runtime;
    for (auto& [name, gpu] : r.gpu)
      for (auto* figure : {&gpu.read, &gpu.cycles, &gpu.launch, &gpu.kv_read, &gpu.gemm, &gpu.tiles,
                           &gpu.attention, &gpu.half_rate_batch})
        figure->value *= 0.8;
    for (FormatEfficiency& format : r.formats)
      for (auto* figure : {&format.cycles, &format.batch, &format.cpu, &format.cpu_batch})
        figure->value *= 1.3;
    for (DatedChange& change : r.changes) change.before.value *= 0.9;
    for (BackendEfficiency& backend : r.backends) backend.graph_launch.value *= 0.9;
    r.chips["rtx-3090"] = {{0.9, SourceKind::kFitted, {}}, {0.8, SourceKind::kFitted, {}}};
    for (auto* figure : {&r.kernels.attention,
                         &r.kernels.latent,
                         &r.kernels.recurrent,
                         &r.kernels.ffn,
                         &r.kernels.moe,
                         &r.kernels.head,
                         &r.decode.kv_cycles,
                         &r.decode.kv_cycles_quant,
                         &r.decode.wide_heads,
                         &r.decode.kv_without_flash,
                         &r.prefill.mapped_share,
                         &r.prefill.mask_cycles,
                         &r.decode.unoverlapped_share,
                         &r.batch.launch,
                         &r.batch.tile_cycles,
                         &r.batch.score_cycles,
                         &r.batch.tile_half_rate_batch,
                         &r.batch.experts,
                         &r.batch.score_bytes,
                         &r.cpu.read,
                         &r.cpu.unoverlapped_share,
                         &r.cpu.one_token,
                         &r.cpu.attention,
                         &r.cpu.cache,
                         &r.cpu.half_rate_batch,
                         &r.cpu.blas,
                         &r.windows.launch,
                         &r.windows.cpu})
      figure->value *= 0.7;
    r.decode.token.value += 3_ms;  // the others may offset each other
    r.decode.crossing.value *= 2.0;
    r.cpu.barrier_time.value *= 2.0;
    const SerialForecast after(s);
    CHECK(before.token(1000).value == Approx(after.token(1000).value).epsilon(kSums));
    CHECK(before.mean_token().value == Approx(after.mean_token().value).epsilon(kSums));
    CHECK(before.prompt().value == Approx(after.prompt().value).epsilon(kSums));
    CHECK(before.token(1000).value != Approx(token).epsilon(kSampled));
  }
}

TEST_CASE("a uniform model's layers are alike", "[serial]") {
  const Scenario s = model_of("llama-3.1-8b", "Q8_0");
  CHECK(alike_layers(s, resolve_placement(s), Phase::kDecode) == std::vector<int>(32, 0));
}

TEST_CASE("layers of more bits are not like the others", "[serial]") {
  const Scenario s = model_of("llama-3.1-8b", "Q4_K_M");
  const auto alike = alike_layers(s, resolve_placement(s), Phase::kDecode);
  CHECK(classes_of(alike) == 2);
  for (int l = 0; l < s.model.layers; ++l) {
    INFO(l);
    const auto& first = s.tensors.layers[std::size_t(alike[std::size_t(l)])];
    CHECK(first == s.tensors.layers[std::size_t(l)]);
  }
  // Not for the formats alone: the classes differ in bytes.
  std::map<std::uint64_t, int> bytes;
  for (const auto& layer : s.tensors.layers) ++bytes[layer.bytes()];
  CHECK(bytes.size() == 2);
}

TEST_CASE("layers with a window are not like those without", "[serial]") {
  const Scenario s = model_of("gemma-3-12b", "Q8_0");
  const auto alike = alike_layers(s, resolve_placement(s), Phase::kDecode);
  CHECK(classes_of(alike) == 2);
  for (int l = 0; l < s.model.layers; ++l)
    CHECK(s.model.sees_all_tokens(l) == s.model.sees_all_tokens(alike[std::size_t(l)]));
}

TEST_CASE("recurrent layers are not like those with attention", "[serial]") {
  const Scenario s = model_of("qwen3.5-27b", "Q8_0");
  const auto alike = alike_layers(s, resolve_placement(s), Phase::kDecode);
  CHECK(classes_of(alike) == 2);
  for (int l = 0; l < s.model.layers; ++l)
    CHECK(s.model.has_attention(l) == s.model.has_attention(alike[std::size_t(l)]));
}

TEST_CASE("layers on other devices are not alike", "[serial]") {
  const Scenario split = scenario({{"model.quant", "Q8_0"}, {"placement.gpu_layers", "13"}});
  std::vector<int> expected(32, 0);
  std::fill(expected.begin() + 20, expected.end(), 20);
  CHECK(alike_layers(split, resolve_placement(split), Phase::kDecode) == expected);
  const Scenario moe = scenario(with(kWide, {{"model.name", "qwen3-30b-a3b"},
                                             {"model.quant", "Q8_0"},
                                             {"placement.gpu_layers", "999"},
                                             {"placement.cpu_moe_layers", "10"}}));
  CHECK(classes_of(alike_layers(moe, resolve_placement(moe), Phase::kDecode)) == 2);
}

TEST_CASE("a layer that reads another's cache is like none", "[serial]") {
  const Scenario s = model_of("gemma-4-e4b", "Q8_0");
  const auto alike = alike_layers(s, resolve_placement(s), Phase::kDecode);
  int borrowing = 0;
  for (int l = 0; l < s.model.layers; ++l)
    if (s.model.has_attention(l) && !s.model.has_kv(l)) {
      CHECK(alike[std::size_t(l)] == l);
      ++borrowing;
    }
  CHECK(borrowing == 18);
}
