#include "planner/plan.hpp"

#include <set>
#include <sstream>
#include <string>

#include "perfmodel/serial_time.hpp"
#include "planner/output/plan_text.hpp"
#include "planner/shortage.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::planner;
using fixtures::scenario;

namespace {

double request_seconds(const Scenario& s) { return SerialForecast(s).request().value; }

Report simulated(std::shared_ptr<const Scenario> s) {
  sim::SimulateOptions sweep;
  sweep.fidelity = sim::Fidelity::kSweep;
  sweep.cliffs = false;
  return sim::simulate(std::move(s), sweep);
}

QualityTable quality_table() {
  auto quality =
      QualityTable::read(std::filesystem::path(test::source_dir()) / "models" / "quality");
  if (!quality) FAIL(quality.error().text());
  return *std::move(quality);
}

Plan plan_of(const Scenario& s, const Constraints& constraints = {},
             const SearchSpace* search_space = nullptr) {
  return make_plan(s, search_space ? *search_space : full_space(s), constraints, quality_table(),
                   request_seconds, simulated);
}

Constraints constraints_for(Objective objective) {
  Constraints constraints;
  constraints.objective = objective;
  return constraints;
}

const RankedPlan* find(const Plan& plan, const char* quant) {
  for (const RankedPlan& c : plan.ranked)
    if (c.candidate.quant == quant && c.candidate.kv_types.k == QuantFormat::kF16) return &c;
  return nullptr;
}

}  // namespace

TEST_CASE("Quantising comes before offloading where memory is short", "[planner]") {
  // 14.5 GB of FP16 weights on a card of 8 GiB: the mix that fits is chosen over the better one
  // that does not.
  const Scenario s = scenario({{"model.name", "mistral-7b-v0.3"},
                               {"rig.vram_capacity", "8GiB"},
                               {"placement.gpu_layers", "\"auto\""},
                               {"workload.context", "4096"}});
  const Plan plan = plan_of(s);
  REQUIRE(!plan.ranked.empty());
  const RankedPlan& best = plan.ranked.front();
  INFO(to_text(s, plan, {}));
  CHECK(best.is_knee);
  CHECK(best.candidate.loss.nats > 0);
  CHECK(*best.candidate.placement.gpu_layers == s.model.layers + 1);
  const RankedPlan* const fp16 = find(plan, "F16");
  REQUIRE(fp16);
  const PlacementSettings& p = fp16->candidate.placement;
  CHECK((*p.gpu_layers < s.model.layers || p.cpu_ffn_layers > 0));
  CHECK(best.request < fp16->request / 4.0);
}

TEST_CASE("Where all fits, little is given up", "[planner]") {
  const Scenario s = scenario({{"rig.gpu", "h100-sxm"}, {"placement.gpu_layers", "\"auto\""}});
  const Plan plan = plan_of(s);
  REQUIRE(!plan.ranked.empty());
  const RankedPlan* const four_bits = find(plan, "Q4_K_M");
  REQUIRE(four_bits);
  CHECK(plan.ranked.front().candidate.loss.nats < four_bits->candidate.loss.nats);
  for (const RankedPlan& c : plan.ranked)
    CHECK(*c.candidate.placement.gpu_layers == s.model.layers + 1);
}

TEST_CASE("Quality is not given up for a few percent", "[planner]") {
  // Its experts are published in four bits: other mixes make the rest smaller, and hardly faster.
  const Scenario s = scenario({{"model.name", "gpt-oss-120b"},
                               {"rig.gpu", "rtx-4090"},
                               {"rig.ram", "2xddr5-6000:64GiB"},
                               {"placement.gpu_layers", "\"auto\""}});
  const Plan plan = plan_of(s);
  REQUIRE(!plan.ranked.empty());
  INFO(to_text(s, plan, {}));
  CHECK(plan.ranked.front().candidate.loss.nats < 0.001);
  CHECK(plan.ranked.front().candidate.placement.cpu_moe_layers > 0);
}

TEST_CASE("Each objective finds the best of what was simulated", "[planner]") {
  const Scenario s = scenario({{"placement.gpu_layers", "\"auto\""}});
  const Plan speed = plan_of(s, constraints_for(Objective::kSpeed));
  const Plan quality = plan_of(s, constraints_for(Objective::kQuality));
  const Plan context = plan_of(s, constraints_for(Objective::kContext));
  for (const RankedPlan& c : speed.ranked) {
    CHECK(speed.ranked.front().turn <= c.turn);
    CHECK(quality.ranked.front().candidate.loss.nats <= c.candidate.loss.nats);
    CHECK(context.ranked.front().report.max_context >= c.report.max_context);
  }
  // Less than four bits are read faster and unpacked slower (a 4B model on an H100: Q2_K 240 tok/s,
  // Q4_0 292). Which mix is the fastest depends on the card; that it is a small one does not.
  CHECK(speed.ranked.front().candidate.loss.nats > 0.02);
  CHECK(quality.ranked.front().candidate.quant == "F16");
}

TEST_CASE("The front has all that nothing else beats", "[planner]") {
  const Plan plan = plan_of(scenario({{"placement.gpu_layers", "\"auto\""}}));
  int knees = 0;
  for (const RankedPlan& a : plan.ranked) {
    knees += a.is_knee;
    bool beaten = false;
    for (const RankedPlan& b : plan.ranked)
      beaten = beaten || (b.candidate.loss.nats < a.candidate.loss.nats && b.turn < a.turn &&
                          b.report.max_context > a.report.max_context);
    if (a.on_front) CHECK_FALSE(beaten);
  }
  CHECK(knees == 1);
}

TEST_CASE("The knee does not depend on what else was searched", "[planner]") {
  const Scenario s = scenario({{"placement.gpu_layers", "\"auto\""}});
  const Plan plan = plan_of(s);
  const RankedPlan& best = plan.ranked.front();
  REQUIRE(best.is_knee);
  SearchSpace fewer = full_space(s);
  std::erase_if(fewer.quants, [&](const std::string& name) {
    return name != best.candidate.quant && name != "Q4_K_M" && name != "Q3_K_M";
  });
  const Plan again = plan_of(s, {}, &fewer);
  CHECK(again.ranked.front().candidate.quant == best.candidate.quant);
  CHECK(again.ranked.front().merit == Approx(best.merit));  // the clock of SimGrid goes on
}

TEST_CASE("A slightly too large model loses bits before it loses layers to RAM", "[planner]") {
  // IQ4_XS is hardly worse than Q5_K_M and needs far fewer FFNs in RAM; three bits are felt.
  const Scenario s = scenario({{"model.name", "qwen3-14b"},
                               {"rig.gpu", "rtx-4060"},
                               {"placement.gpu_layers", "\"auto\""},
                               {"workload.context", "8192"}});
  const RankedPlan best = plan_of(s).ranked.front();
  INFO(best.candidate.quant);
  CHECK(best.candidate.loss.nats > 0.01);
  CHECK(best.candidate.loss.nats < 0.03);
}

TEST_CASE("Wishes come before everything", "[planner]") {
  const Scenario s = scenario({{"placement.gpu_layers", "\"auto\""}});
  Constraints constraints = constraints_for(Objective::kQuality);
  constraints.min_tokens_per_s = 40;
  const Plan plan = plan_of(s, constraints);
  CHECK(plan.ranked.front().report.decode_tokens_per_s >= 40);
  CHECK(plan.ranked.front().unmet.empty());
  constraints.min_tokens_per_s = 4000;
  CHECK(plan_of(s, constraints).ranked.front().unmet == "slower than 4000 tok/s");
  constraints = constraints_for(Objective::kSpeed);
  constraints.max_loss = 0.02;
  CHECK(plan_of(s, constraints).ranked.front().candidate.loss.nats <= 0.02);
  constraints = {};
  Scenario roomy = s;
  roomy.settings.headroom = 3_GiB;
  for (const RankedPlan& c : plan_of(roomy, constraints).ranked)
    CHECK(c.report.memory.devices.front().free() >= 2.99 * 1_GiB);
}

TEST_CASE("What was asked for is not searched", "[planner]") {
  const Scenario s = scenario({{"placement.gpu_layers", "20"}});
  SearchSpace search_space = full_space(s);
  search_space.quants = {"Q4_K_M"};
  search_space.kv_types = {s.kv.types};
  search_space.places_layers = false;
  for (const RankedPlan& c : plan_of(s, {}, &search_space).ranked) {
    CHECK(c.candidate.quant == "Q4_K_M");
    CHECK(*c.candidate.placement.gpu_layers == 20);
  }
}

TEST_CASE("A runtime is asked for nothing that it cannot do", "[planner]") {
  const SearchSpace llama = full_space(scenario());
  CHECK(std::ranges::find(llama.policies, KvPolicy::kPaged) == llama.policies.end());
  const SearchSpace own = full_space(scenario({{"runtime.name", "rigcast"}}));
  CHECK(std::ranges::find(own.policies, KvPolicy::kPaged) != own.policies.end());
  const SearchSpace without = full_space(scenario({{"runtime.flash_attention", "false"}}));
  CHECK(without.kv_types.size() == 1);
}

TEST_CASE("What fits nowhere is told", "[planner]") {
  const Scenario s = scenario({{"model.name", "llama-3.1-70b"},
                               {"rig.ram", "2xddr4-3200:8GiB"},
                               {"runtime.mmap", "false"},
                               {"placement.gpu_layers", "\"auto\""}});
  const Plan plan = plan_of(s);
  CHECK(plan.ranked.empty());
  CHECK(plan.too_large == plan.candidates);
}

TEST_CASE("With several GPUs nothing of a plan is cut off, however narrow the screen",
          "[planner]") {
  const Scenario s = scenario({{"model.name", "llama-3.3-70b"},
                               {"rig.gpu", "[\"4xrtx-3090\"]"},
                               {"rig.ram", "2xddr4-3200:128GiB"},
                               {"placement.gpu_layers", "\"auto\""}});
  SearchSpace search_space = full_space(s);
  search_space.quants = {"F16", "Q8_0", "Q4_K_M", "Q2_K"};
  search_space.ubatches = {1024};  // said at a line's end
  const Plan plan = plan_of(s, {}, &search_space);
  REQUIRE(plan.ranked.size() > 3);
  for (const int width : {60, 100}) {
    const std::string text = to_text(s, plan, {false, width});
    INFO(text);
    CHECK(text.find("…") == std::string::npos);
    std::string words;  // as if no line had been broken
    std::istringstream in(text);
    for (std::string word; in >> word;) words += word + " ";
    for (const RankedPlan& c : plan.ranked)
      if (c.on_front) CHECK(words.find(candidate_text(s, c.candidate)) != std::string::npos);
  }
}

TEST_CASE("A plan that needs no disk comes before all that read from it", "[planner]") {
  // 32 GiB of RAM and 12 of VRAM hold 70B in two or three bits, not in more.
  const Scenario s = scenario({{"model.name", "llama-3.3-70b"},
                               {"rig.ram", "2xddr4-3200:32GiB"},
                               {"placement.gpu_layers", "\"auto\""}});
  for (const Objective objective : {Objective::kBalanced, Objective::kSpeed, Objective::kQuality}) {
    const Plan plan = plan_of(s, constraints_for(objective));
    REQUIRE(!plan.ranked.empty());
    CHECK(plan.ranked.front().report.memory.outside_ram.value == 0);
    bool disk = false;
    for (const RankedPlan& c : plan.ranked) {
      const bool reads = c.report.memory.outside_ram.value > 0;
      CHECK((reads || !disk));
      disk = disk || reads;
    }
    CHECK(disk);
  }
}

TEST_CASE("A plan that reads from the disk fills the GPU, which is read less for", "[planner]") {
  // 48 GB of weights for 32 GiB of RAM and 6 of VRAM: every layer on the GPU is one less to read.
  const Scenario s = scenario({{"model.name", "llama-3.3-70b"},
                               {"rig.gpu", "[\"rtx-2060\"]"},
                               {"rig.ram", "2xddr4-3200:32GiB"},
                               {"placement.gpu_layers", "\"auto\""}});
  SearchSpace search_space = full_space(s);
  search_space.quants = {"Q5_K_S"};
  const Plan plan = plan_of(s, {}, &search_space);
  REQUIRE(!plan.ranked.empty());
  const RankedPlan& best = plan.ranked.front();
  CHECK(best.report.memory.outside_ram.value > 0);
  const DeviceMemory& gpu = best.report.memory.devices.front();
  double largest = 0;
  for (const LayerWeights& l : best.report.scenario->tensors.layers)
    largest = std::max(largest, double(l.bytes()));
  CHECK(gpu.free().value < largest);
}

TEST_CASE("What would hold a model is the smallest way that loses no more than allowed",
          "[planner]") {
  const Scenario s = scenario({{"model.name", "llama-3.3-70b"},
                               {"rig.ram", "2xddr4-3200:32GiB"},
                               {"placement.gpu_layers", "\"auto\""}});
  Constraints strict;
  strict.max_loss = 0.006;
  const SearchSpace space = full_space(s);
  const QualityTable table = quality_table();
  const Scenario small = smallest_of(s, space, strict, table);
  const Scenario any = smallest_of(s, space, {}, table);
  CHECK(small.tensors.bytes() > any.tensors.bytes());
  CHECK(table.of_mix(small.quant, s.model, double(s.tensors.elements()))->nats <= 0.006);
  // The RAM that is missing is enough, and a GiB less is not.
  const auto missing = missing_ram(small);
  REQUIRE(missing);
  Scenario more = small;
  more.rig.ram.capacity.value = small.rig.ram.capacity.value + *missing;
  CHECK(place_layers(more));
  more.rig.ram.capacity.value -= 1_GiB;
  CHECK_FALSE(place_layers(more));
}

TEST_CASE("Names of memories have a column as wide as the longest", "[planner]") {
  Scenario s = scenario({{"model.name", "llama-3.2-1b"},
                         {"rig.gpu", "[\"rtx-3090\", \"rtx-3090\"]"},
                         {"placement.gpu_layers", "99"}});
  SearchSpace space = full_space(s);
  space.quants = {"Q8_0"};
  Plan plan = plan_of(s, {}, &space);
  REQUIRE(!plan.ranked.empty());
  plan.ranked.resize(1);
  auto& devices = plan.ranked.front().report.memory.devices;
  REQUIRE(devices.size() == 3);
  devices[0].device = "GPUs 0-1";
  devices[1].device = "GPUs 10-11";
  for (DeviceMemory& d : devices) d.weights = d.kv = 1_GiB;
  std::istringstream text(to_text(s, plan, {false, 100}));
  std::set<std::size_t> columns;  // at which the figures begin
  int rows = 0;
  for (std::string line; std::getline(text, line);)
    for (const char* name : {"GPUs 0-1 ", "GPUs 10-11 ", "RAM "})
      if (const auto at = line.find(name); at == 9) {
        columns.insert(line.find_first_of("0123456789", at + std::string(name).size()));
        ++rows;
      }
  INFO(text.str());
  CHECK(rows == 3);
  CHECK(columns == std::set<std::size_t>{9 + 11});
}

TEST_CASE("A limit that weights do not fit into is planned as it is simulated",
          "[planner][pressure]") {
  const fixtures::Settings small = {{"rig.gpu", "[]"},
                                    {"placement.gpu_layers", "\"auto\""},
                                    {"runtime.name", "rigcast"},
                                    {"memory.limit", "3 GiB"},
                                    {"workload.context", "4096"}};
  const auto best_of = [](const Scenario& s) {
    SearchSpace search_space = full_space(s);
    search_space.quants = {"Q4_K_M"};
    search_space.kv_types = {s.kv.types};
    return plan_of(s, {}, &search_space);
  };
  // 4.6 GiB of weights: they are read again for every token.
  const Plan mapped = best_of(scenario(small));
  REQUIRE_FALSE(mapped.ranked.empty());
  CHECK(mapped.ranked.front().report.memory.outside_ram.value > 0);
  // Copies have nowhere to go: the kernel ends a group without files, whatever swap there is.
  const Plan copies = best_of(
      scenario(fixtures::with(small, {{"runtime.mmap", "false"}, {"memory.swap", "16 GiB"}})));
  CHECK(copies.ranked.empty());
}
