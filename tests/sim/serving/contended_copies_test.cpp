// Loads whose copies to and from RAM share links with their steps.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/hardware/shared_layers.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "sim/serving/contended_links.hpp"
#include "sim/serving/simulate_load.hpp"
#include "tests/sim/scenario_fixtures.hpp"
#include "tests/sim/serving/serving_fixture.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::with;

namespace {

constexpr double kTokenBytes = 1000, kRate = 1e6;  // a token takes a millisecond

RamTier tier(std::optional<sim::CopyLinks> contended) {
  RamTier tier;
  tier.capacity = Bytes{8e6};
  tier.bytes_of = [](TokenCount n) { return Bytes{kTokenBytes * double(n)}; };
  tier.to_ram = tier.to_gpu = BytesPerSecond{kRate};
  tier.start = Seconds{1e-4};
  tier.layers = 4;
  tier.contended = contended;
  return tier;
}

// Links that carry `link`, and RAM that is in nobody's way.
sim::CopyLinks links(double link) {
  return {.h2d{link}, .d2h{link}, .ram{1e9}, .to_ram{kRate}, .from_ram{kRate}, .exchange{kRate}};
}

SchedulerPolicy blocks(RamLoad load, StepOrder order = StepOrder::kAdmission) {
  SchedulerPolicy p;
  p.order = order;
  p.ram_load = load;
  p.sequences = 8;
  p.step_tokens = 128;
  return p;
}

// A third of a step is an exchange.
sim::StepUse step_use(const StepWork& work) {
  sim::StepUse use = fixtures::step_time(work);
  use.exchanged = Bytes{kRate * use.time.value / 3};
  return use;
}

ServingRun served(const std::vector<ServedRequest>& load, const SchedulerPolicy& policy,
                  std::optional<sim::CopyLinks> contended) {
  auto run = serve(load, policy, 1200, step_use, tier(contended));
  if (!run) FAIL(run.error().text());
  return *std::move(run);
}

const Settings kCards = {{"rig.gpu", "[\"rtx-4090\", \"rtx-4090\"]"},
                         {"runtime.name", "vllm"},
                         {"model.quant", "BF16"},
                         {"placement.gpu_layers", "33"},
                         {"scheduler.ram_cache", "16 GiB"},
                         {"load.arrival", "burst"},  // steps are the same whatever they take
                         {"load.requests", "100"}};

std::optional<sim::CopyLinks> links_of(const Settings& settings) {
  const Scenario s = scenario(settings);
  const Placement p = resolve_placement(s);
  RamTier tier;
  tier.capacity = Bytes{1e9};
  const double share = s.runtime.decode.stream_share.value;
  tier.to_ram = s.rig.links.front().d2h.value * share;
  tier.to_gpu = s.rig.links.front().h2d.value * share;
  return contended_links(s, p, tier);
}

}  // namespace

TEST_CASE("Flows that nothing slows are the closed form", "[serving][copies]") {
  const auto load = fixtures::two_turns(600, Seconds{0.07});
  for (const SchedulerPolicy& policy : {blocks(RamLoad::kAhead), blocks(RamLoad::kByLayer),
                                        blocks(RamLoad::kByLayer, StepOrder::kPromptsFirst)}) {
    INFO(int(policy.ram_load));
    const ServingRun closed = served(load, policy, std::nullopt);
    const ServingRun flows = served(load, policy, links(3 * kRate));
    REQUIRE(closed.ram_hit_tokens > 0);
    CHECK(flows.steps == closed.steps);
    CHECK(flows.ram_hit_tokens == closed.ram_hit_tokens);
    CHECK(flows.to_ram == closed.to_ram);
    CHECK(flows.to_gpu.value == Approx(closed.to_gpu.value).epsilon(1e-12));
    // Amounts are rounded to a millionth of a byte, and clocks of less than 2^20 s to 2^-33 s, for
    // each of nine parts of a layer and of a copy.
    const double of_step = 4 * 9 * (1e-6 / kRate + 1.0 / double(1LL << 33));
    const double tolerance = of_step * double(closed.steps);
    CHECK(std::abs((flows.to_ram_busy - closed.to_ram_busy).value) < tolerance);
    CHECK(std::abs((flows.to_gpu_busy - closed.to_gpu_busy).value) < tolerance);
    double worst = 0;
    for (std::size_t i = 0; i < load.size(); ++i)
      worst = std::max(
          worst, std::abs((flows.requests[i].last_token - closed.requests[i].last_token).value));
    CHECK(worst < tolerance);
    CHECK(worst < 1e-9 * closed.end.value);
  }
}

TEST_CASE("Copies that contend lose no token, byte or second", "[serving][copies]") {
  const auto load = fixtures::two_turns(600, Seconds{0.07});
  for (const RamLoad how : {RamLoad::kAhead, RamLoad::kByLayer}) {
    const ServingRun closed = served(load, blocks(how), std::nullopt);
    const ServingRun run = served(load, blocks(how), links(1.2 * kRate));
    fixtures::check_nothing_lost(run, load);
    CHECK(run.free_blocks_at_end == 1200 / 16);
    CHECK(run.ram_hit_tokens > 0);
    CHECK(run.to_gpu.value == Approx(kTokenBytes * double(run.ram_hit_tokens)).epsilon(1e-9));
    // A copy takes no less time than alone, and a step neither.
    CHECK(run.to_ram_busy.value > run.to_ram.value / kRate);
    CHECK(run.busy > closed.busy);
  }
}

TEST_CASE("A load is between no contention and one thing after the other", "[serving][copies]") {
  // All come at once, and no prompt is like another: steps are the same whatever they take.
  std::vector<ServedRequest> load;
  for (int i = 0; i < 60; ++i)
    load.push_back({Seconds{}, 40 + TokenCount(i * 37 % 90), 1 + TokenCount(i * 53 % 60), {}, 0});
  const SchedulerPolicy policy = blocks(RamLoad::kAhead);
  const ServingRun alone = served(load, policy, std::nullopt);
  Seconds last = alone.end;
  for (const double link : {1.9, 1.4, 1.0}) {
    const ServingRun run = served(load, policy, links(link * kRate));
    CHECK(run.steps == alone.steps);
    CHECK(run.to_ram == alone.to_ram);
    CHECK(run.end > last);  // the narrower the link
    CHECK(run.end < alone.end + alone.to_ram_busy);
    last = run.end;
  }
}

TEST_CASE("Only what wants more of a link than it carries is contended", "[serving][copies]") {
  const sim::CopyLinks all = {.h2d{10}, .d2h{10}, .ram{30}, .to_ram{7}, .from_ram{7}, .exchange{3}};
  CHECK_FALSE(is_contended(all, false));
  sim::CopyLinks more = all;
  more.exchange = BytesPerSecond{3.5};
  CHECK(is_contended(more, false));
  more = all;
  more.ram = BytesPerSecond{13};
  CHECK(is_contended(more, false));
  CHECK(is_contended(all, true));  // the CPU alone takes all of RAM

  // Cards exchange over the links that copies take; modules do not.
  REQUIRE(links_of(kCards));
  CHECK(links_of(kCards)->exchange.value > 0);
  CHECK_FALSE(links_of(with(kCards, {{"rig.gpu", "[\"h100-sxm\", \"h100-sxm\"]"},
                                     {"rig.ram", "\"12xddr5-4800:768GiB\""},
                                     {"rig.cpu", "\"epyc-9654\""}})));
  CHECK_FALSE(links_of(
      with(kCards, {{"rig.gpu", "[\"rtx-4090\"]"}, {"rig.ram", "\"2xddr5-6000:64GiB\""}})));
  // llama-server copies while nothing else runs. If it did not, the CPU would read RAM meanwhile.
  const Settings host = with(kCards, {{"rig.gpu", "[\"rtx-4090\"]"},
                                      {"runtime.name", "llama.cpp"},
                                      {"model.quant", "Q4_K_M"},
                                      {"placement.cpu_ffn_layers", "8"}});
  CHECK_FALSE(links_of(host));
  CHECK(links_of(with(host, {{"scheduler.ram_load", "\"ahead\""}})));
  // Where a cache is in RAM itself, its copies are in nobody's way.
  CHECK_FALSE(
      links_of(with(host, {{"scheduler.ram_load", "\"ahead\""}, {"placement.gpu_layers", "20"}})));
}

TEST_CASE("What GPUs exchange is what their all-reduces take time for", "[serving][copies]") {
  const Scenario s = scenario(kCards);
  const Placement p = resolve_placement(s);
  const BatchTime time(s, p, plan_memory(s, p, s.workload.context));
  const SharedLayers& shared = *s.rig.gpus.front().shared;
  constexpr TokenCount kTokens = 5;
  const auto use = time.use_of(std::vector<SequencePart>(kTokens, {1000, 1}));
  const double layers = s.model.layers, hidden = 2.0 * double(s.model.hidden) * kTokens;
  const double logits = 2.0 * double(s.model.vocabulary) * kTokens;
  const Bytes sent =
      all_reduce_bytes(shared, Bytes{hidden}) * (2 * layers) + gather_bytes(shared, Bytes{logits});
  CHECK(use.exchanged.value == Approx(sent.value * shared.gpus).epsilon(1e-12));
  CHECK(use.time > sent / shared.exchange.bus.value);
  CHECK(use.streamed.value == 0);
  CHECK(use.read.value == 0);
}

TEST_CASE("Weights in RAM are read or streamed in the time that a step takes",
          "[serving][copies]") {
  const Scenario s = scenario({{"placement.gpu_layers", "20"}});
  const Placement p = resolve_placement(s);
  const BatchTime time(s, p, plan_memory(s, p, s.workload.context));
  const auto answers = time.use_of({{1000, 1}});
  CHECK(answers.read.value > 0);
  CHECK(answers.streamed.value == 0);
  CHECK(answers.read / s.rig.ram.bandwidth.value < answers.time);
  const auto prompt = time.use_of({{0, 512}});
  CHECK(prompt.streamed.value > 0);
  CHECK(prompt.streamed / s.rig.links.front().h2d.value < prompt.time);
}

TEST_CASE("All-reduces over PCI-E are slower beside copies, on a way of their own they are not",
          "[serving][copies]") {
  const Settings same = with(kCards, {{"rig.cpu", "\"epyc-9654\""},
                                      {"rig.ram", "\"12xddr5-4800:768GiB\""},
                                      {"rig.all_reduce_latency", "15 us"},
                                      {"rig.all_reduce_rate", "15 GB/s"}});
  const auto figures_of = [&](const char* interconnect) {
    const Scenario s = scenario(with(same, {{"rig.interconnect", interconnect}}));
    auto simulation = LoadSimulation::make(s);
    REQUIRE(simulation);
    auto figures = simulation->figures(*s.load);
    REQUIRE(figures);
    return *std::move(figures);
  };
  const ServingFigures bridge = figures_of("nvlink-bridge"), pcie = figures_of("pcie-host");
  CHECK(pcie.cache.ram->to_ram.value > 0);
  CHECK(pcie.tpot.mean > bridge.tpot.mean);
  // No more than if nothing were computed while a copy is made.
  const ServingFigures::Cache::Ram& copies = *bridge.cache.ram;
  const double copying =
      (copies.to_ram_share.value() + copies.to_gpu_share.value()) * bridge.duration.value;
  const auto in_steps = [](const ServingFigures& f) { return f.busy * f.duration.value; };
  CHECK(in_steps(pcie) > in_steps(bridge));
  CHECK(in_steps(pcie) < in_steps(bridge) + copying);
}
