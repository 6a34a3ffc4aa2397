#include "sim/prefill.hpp"

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "sim/machine/machine.hpp"
#include "tests/catch.hpp"
#include "tests/sim/request_steps.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::sim;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::with;

namespace {

struct Prompt {
  explicit Prompt(const Settings& settings)
      : s(scenario(settings)),
        p(resolve_placement(s)),
        memory(plan_memory(s, p, s.workload.context)) {
    set_machine(s.rig);
  }
  std::vector<Step> steps() const { return fixtures::prompt_steps(s, p, memory); }
  double total(Fidelity fidelity) const { return forecast_prefill(s, p, fidelity).total.value; }

  Scenario s;
  Placement p;
  MemoryPlan memory;
};

constexpr double kRounding = 1e-9;

bool has_head(const Step& step) {
  return std::ranges::any_of(step.ops,
                             [](const StepOp& op) { return op.kind == ActivityKind::kHead; });
}

// The time of a prompt with everything on the GPU and no overlap.
Seconds alone(const Scenario& s, const Step& step) {
  Seconds sum = step.host_work + step.sample;
  for (const StepOp& op : step.ops) {
    sum += op.cost.overhead +
           std::max(op.cost.compute, op.cost.equivalent_bytes / s.rig.gpus[0].bandwidth.value);
    sum += s.runtime.decode.crossing.value * op.handoffs;
    sum += op.handoff_bytes / s.rig.links[0].h2d.value;
  }
  return sum + step.logits / s.rig.links[0].d2h.value;
}

Settings prompt(const char* tokens, const Settings& settings = {}) {
  return with({{"workload.prompt_tokens", tokens},
               {"workload.output_tokens", "16"},
               {"workload.context", "70000"},
               {"rig.vram_capacity", "40 GiB"}},
              settings);
}

}  // namespace

TEST_CASE("a prompt is cut into ubatches, the last one shorter", "[prefill]") {
  const Prompt t(prompt("1300"));
  const auto steps = t.steps();
  REQUIRE(steps.size() == 3);
  // The hidden states that go to the GPU count the tokens of a ubatch.
  const double token = hidden_bytes(t.s.model).value;
  CHECK(steps[0].ops.front().handoff_bytes.value == 512 * token);
  CHECK(steps[1].ops.front().handoff_bytes.value == 512 * token);
  CHECK(steps[2].ops.front().handoff_bytes.value == 276 * token);
  // Only the last token's logits are computed, copied and sampled.
  CHECK_FALSE(has_head(steps[0]));
  CHECK_FALSE(has_head(steps[1]));
  CHECK(has_head(steps[2]));
  CHECK(steps[1].logits.value == 0);
  CHECK(steps[1].sample.value == 0);
  CHECK(steps[2].logits.value == logits_bytes(t.s.model).value);
  CHECK(Prompt(prompt("1024")).steps().size() == 2);
  CHECK(Prompt(prompt("1")).steps().size() == 1);
}

TEST_CASE("a resident model's prefill is the sum of its operations", "[prefill]") {
  const char* tokens = GENERATE("1", "100", "512", "1300", "6000");
  const Prompt t(prompt(tokens));
  Seconds sum{0};
  for (const Step& step : t.steps()) sum += alone(t.s, step);
  CHECK(t.total(Fidelity::kFinal) == Approx(sum.value).epsilon(kRounding));
  CHECK(t.total(Fidelity::kSweep) == Approx(sum.value).epsilon(kRounding));
  CHECK(t.total(Fidelity::kExact) == Approx(sum.value).epsilon(kRounding));
}

TEST_CASE("a cache that is there already makes prefill slower, by its attention", "[prefill]") {
  const Prompt empty(prompt("512"));
  const Prompt deep(prompt("512", {{"workload.depth", "30000"}}));
  CHECK(deep.total(Fidelity::kFinal) > empty.total(Fidelity::kFinal));
}

TEST_CASE("weights and cache in RAM cross the link once for every ubatch", "[prefill]") {
  const Prompt t(prompt("2048", {{"placement.gpu_layers", "21"}}));  // the head is one of them
  double weights = 0, token = 0;                                     // of the host's layers
  for (int l = 0; l < 12; ++l) {
    weights += double(t.s.tensors.layers[std::size_t(l)].bytes());
    token += kv_bytes_per_token(t.s.model, l, t.s.kv.types);
  }
  double fetched = 0;
  for (const Step& step : t.steps())
    for (const StepOp& op : step.ops) fetched += op.fetch ? op.fetch->bytes.value : 0.0;
  // The cells that each ubatch of 512 tokens reads, its own among them.
  const double cached = 512 + 1024 + 1536 + 2048;
  CHECK(fetched == Approx(4 * weights + cached * token).epsilon(1e-12));
  // And without overlap that time is added to what operations take.
  const HostLink& link = t.s.rig.links[0];
  Seconds sum{0};
  for (const Step& step : t.steps())
    for (const StepOp& op : step.ops)
      if (op.fetch)
        sum += op.fetch->equivalent_bytes / (op.fetch->pageable ? link.pageable : link.h2d).value;
  CHECK(t.total(Fidelity::kFinal) > sum.value);
}

TEST_CASE("a cache in RAM crosses from pageable memory, wherever weights are", "[prefill]") {
  const auto seconds = [](const char* mmap, const char* depth) {
    const Prompt t(prompt("512", {{"placement.gpu_layers", "21"},
                                  {"runtime.mmap", mmap},
                                  {"workload.depth", depth},
                                  {"workload.context", "16384"}}));
    const HostLink& link = t.s.rig.links[0];
    double sum = 0;
    for (const Step& step : t.steps())
      for (const StepOp& op : step.ops)
        if (op.fetch)
          sum +=
              (op.fetch->equivalent_bytes / (op.fetch->pageable ? link.pageable : link.h2d).value)
                  .value;
    return sum;
  };
  CHECK(seconds("true", "0") > seconds("false", "0"));  // weights of a mapping are not pinned
  CHECK(seconds("true", "8192") - seconds("true", "0") ==
        Approx(seconds("false", "8192") - seconds("false", "0")).epsilon(1e-9));
}

TEST_CASE("a short last ubatch leaves host layers on the CPU", "[prefill]") {
  // 512 tokens are streamed, the 16 after them are fewer than a copy pays for.
  const Prompt t(prompt("528", {{"placement.gpu_layers", "20"}}));
  const auto steps = t.steps();
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].ops.front().device == 0);
  CHECK(steps[0].ops.front().fetch.has_value());
  CHECK(steps[1].ops.front().device == kHost);
  CHECK_FALSE(steps[1].ops.front().fetch.has_value());
}

TEST_CASE("copying the next weights while these compute is never slower", "[prefill]") {
  Prompt t(prompt("2048", {{"placement.gpu_layers", "20"}, {"runtime.name", "rigcast"}}));
  t.s.runtime.prefill.picks_faster = false;
  REQUIRE(t.s.runtime.prefill.overlap);
  const double ahead = t.total(Fidelity::kFinal);
  t.s.runtime.prefill.overlap = false;
  CHECK(ahead <= t.total(Fidelity::kFinal) * (1 + kRounding));
  CHECK(ahead < t.total(Fidelity::kFinal) * 0.95);
}

TEST_CASE("long prompts sampled at some ubatches stay close to all of them", "[prefill]") {
  const Settings settings = GENERATE(
      Settings{}, Settings{{"placement.gpu_layers", "20"}},
      Settings{{"placement.gpu_layers", "20"}, {"runtime.name", "rigcast"}},
      Settings{{"runtime.flash_attention", "false"}},
      Settings{{"model.name", "mistral-7b-v0.1"}, {"placement.gpu_layers", "999"}},
      Settings{{"runtime.name", "rigcast"}, {"kv.policy", "stream"}},
      Settings{{"runtime.name", "rigcast"}, {"kv.policy", "paged"}, {"rig.vram_capacity", "9 GiB"}},
      Settings{{"kv.policy", "ram"}});
  const Prompt t(with(prompt("20000", settings), {{"workload.context", "24000"}}));
  const double exact = t.total(Fidelity::kExact);
  CHECK(t.total(Fidelity::kFinal) == Approx(exact).epsilon(0.003));
  CHECK(t.total(Fidelity::kSweep) == Approx(exact).epsilon(0.015));
}
