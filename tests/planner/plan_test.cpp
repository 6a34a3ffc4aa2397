#include "planner/plan.hpp"

#include <sstream>

#include "perfmodel/serial_time.hpp"
#include "planner/plan_text.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::planner;
using fixtures::scenario;

namespace {

double request_seconds(const Scenario& s) {
  const SerialForecast forecast(s);
  return (forecast.prompt() + double(s.workload.output_tokens - 1) * forecast.mean_token()).value;
}

Report simulated(std::shared_ptr<const Scenario> s) {
  sim::SimulateOptions sweep;
  sweep.detail = sim::Detail::kSweep;
  sweep.cliffs = false;
  return sim::simulate(std::move(s), sweep);
}

Plan plan_of(const Scenario& s, const Wish& wish = {}, const Space* space = nullptr) {
  const auto quality =
      QualityTable::read(std::filesystem::path(RIGCAST_SOURCE_DIR) / "models" / "quality");
  if (!quality) FAIL(quality.error().text());
  return make_plan(s, space ? *space : whole_space(s), wish, *quality, request_seconds, simulated);
}

Wish wish_for(Objective objective) {
  Wish wish;
  wish.objective = objective;
  return wish;
}

const Choice* find(const Plan& plan, const char* quant) {
  for (const Choice& c : plan.choices)
    if (c.option.quant == quant && c.option.kv_types.k == QuantFormat::kF16) return &c;
  return nullptr;
}

}  // namespace

TEST_CASE("Quantising comes before offloading where memory is short", "[planner]") {
  // 14.5 GB of halves on a card of 8 GiB: the mix that fits beats the better one that does not.
  const Scenario s = scenario({{"model.name", "mistral-7b-v0.3"},
                               {"rig.vram_capacity", "8GiB"},
                               {"placement.gpu_layers", "\"auto\""},
                               {"workload.context", "4096"}});
  const Plan plan = plan_of(s);
  REQUIRE(!plan.choices.empty());
  const Choice& best = plan.choices.front();
  INFO(to_text(s, plan, {}));
  CHECK(best.is_knee);
  CHECK(best.option.loss.nats > 0);
  CHECK(*best.option.placement.gpu_layers == s.model.layers + 1);
  const Choice* const halves = find(plan, "F16");
  REQUIRE(halves);
  const PlacementSettings& p = halves->option.placement;
  CHECK((*p.gpu_layers < s.model.layers || p.cpu_ffn_layers > 0));
  CHECK(best.request() < halves->request() / 4.0);
}

TEST_CASE("Where all fits, little is given up", "[planner]") {
  const Scenario s = scenario({{"rig.gpu", "h100-sxm"}, {"placement.gpu_layers", "\"auto\""}});
  const Plan plan = plan_of(s);
  REQUIRE(!plan.choices.empty());
  const Choice* const four_bits = find(plan, "Q4_K_M");
  REQUIRE(four_bits);
  CHECK(plan.choices.front().option.loss.nats < four_bits->option.loss.nats);
  for (const Choice& c : plan.choices) CHECK(*c.option.placement.gpu_layers == s.model.layers + 1);
}

TEST_CASE("Quality is not given up for a few percent", "[planner]") {
  // Its experts are published in four bits: other mixes make the rest smaller, and hardly faster.
  const Scenario s = scenario({{"model.name", "gpt-oss-120b"},
                               {"rig.gpu", "rtx-4090"},
                               {"rig.ram", "2xddr5-6000:64GiB"},
                               {"placement.gpu_layers", "\"auto\""}});
  const Plan plan = plan_of(s);
  REQUIRE(!plan.choices.empty());
  INFO(to_text(s, plan, {}));
  CHECK(plan.choices.front().option.loss.nats < 0.001);
  CHECK(plan.choices.front().option.placement.cpu_moe_layers > 0);
}

TEST_CASE("Each objective finds the best of what was simulated", "[planner]") {
  const Scenario s = scenario({{"placement.gpu_layers", "\"auto\""}});
  const Plan speed = plan_of(s, wish_for(Objective::kSpeed));
  const Plan quality = plan_of(s, wish_for(Objective::kQuality));
  const Plan context = plan_of(s, wish_for(Objective::kContext));
  for (const Choice& c : speed.choices) {
    CHECK(speed.choices.front().request() <= c.request());
    CHECK(quality.choices.front().option.loss.nats <= c.option.loss.nats);
    CHECK(context.choices.front().report.longest_context >= c.report.longest_context);
  }
  CHECK(speed.choices.front().option.quant == "Q2_K");
  CHECK(quality.choices.front().option.quant == "F16");
}

TEST_CASE("The front has all that nothing else beats", "[planner]") {
  const Plan plan = plan_of(scenario({{"placement.gpu_layers", "\"auto\""}}));
  int knees = 0;
  for (const Choice& a : plan.choices) {
    knees += a.is_knee;
    bool beaten = false;
    for (const Choice& b : plan.choices)
      beaten = beaten || (b.option.loss.nats < a.option.loss.nats && b.request() < a.request() &&
                          b.report.longest_context > a.report.longest_context);
    if (a.on_front) CHECK_FALSE(beaten);
  }
  CHECK(knees == 1);
}

TEST_CASE("Wishes come before everything", "[planner]") {
  const Scenario s = scenario({{"placement.gpu_layers", "\"auto\""}});
  Wish wish = wish_for(Objective::kQuality);
  wish.min_tokens_per_s = 40;
  const Plan plan = plan_of(s, wish);
  CHECK(plan.choices.front().report.decode_tokens_per_s >= 40);
  CHECK(plan.choices.front().unmet.empty());
  wish.min_tokens_per_s = 4000;
  CHECK(plan_of(s, wish).choices.front().unmet == "slower than 4000 tok/s");
  wish = wish_for(Objective::kSpeed);
  wish.max_loss = 0.02;
  CHECK(plan_of(s, wish).choices.front().option.loss.nats <= 0.02);
  wish = {};
  wish.headroom = 3_GiB;
  for (const Choice& c : plan_of(s, wish).choices)
    CHECK(c.report.memory.devices.front().free() >= 2.99 * 1_GiB);
}

TEST_CASE("What was asked for is not searched", "[planner]") {
  const Scenario s = scenario({{"placement.gpu_layers", "20"}});
  Space space = whole_space(s);
  space.quants = {"Q4_K_M"};
  space.kv_types = {s.kv.types};
  space.places_layers = false;
  for (const Choice& c : plan_of(s, {}, &space).choices) {
    CHECK(c.option.quant == "Q4_K_M");
    CHECK(*c.option.placement.gpu_layers == 20);
  }
}

TEST_CASE("A runtime is asked for nothing that it cannot do", "[planner]") {
  const Space llama = whole_space(scenario());
  CHECK(std::ranges::find(llama.policies, KvPolicy::kPaged) == llama.policies.end());
  const Space own = whole_space(scenario({{"runtime.name", "rigcast"}}));
  CHECK(std::ranges::find(own.policies, KvPolicy::kPaged) != own.policies.end());
  const Space without = whole_space(scenario({{"runtime.flash_attention", "false"}}));
  CHECK(without.kv_types.size() == 1);
}

TEST_CASE("What fits nowhere is told", "[planner]") {
  const Scenario s = scenario({{"model.name", "llama-3.1-70b"},
                               {"rig.ram", "2xddr4-3200:16GiB"},
                               {"placement.gpu_layers", "\"auto\""}});
  const Plan plan = plan_of(s);
  CHECK(plan.choices.empty());
  CHECK(plan.too_large == plan.options);
}

TEST_CASE("With several GPUs nothing of a plan is cut off, however narrow the screen",
          "[planner]") {
  const Scenario s = scenario({{"model.name", "llama-3.3-70b"},
                               {"rig.gpu", "[\"4xrtx-3090\"]"},
                               {"rig.ram", "2xddr4-3200:128GiB"},
                               {"placement.gpu_layers", "\"auto\""}});
  Space space = whole_space(s);
  space.quants = {"F16", "Q8_0", "Q4_K_M", "Q2_K"};
  space.ubatches = {1024};  // said at a line's end
  const Plan plan = plan_of(s, {}, &space);
  REQUIRE(plan.choices.size() > 3);
  for (const int width : {60, 100}) {
    const std::string text = to_text(s, plan, {false, width});
    INFO(text);
    CHECK(text.find("…") == std::string::npos);
    std::string words;  // as if no line had been broken
    std::istringstream in(text);
    for (std::string word; in >> word;) words += word + " ";
    for (const Choice& c : plan.choices)
      if (c.on_front) CHECK(words.find(option_text(s, c.option)) != std::string::npos);
  }
}
