#include "cli/load/load_tools.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "core/catalogue/find_model.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "planner/compare.hpp"
#include "sim/serving/scenario_ram.hpp"
#include "sim/serving/simulate_load.hpp"

namespace rigcast::cli {
namespace {

// Keys that say how several GPUs are used: copies are then none of it.
constexpr std::array kUsesOfGpus{"placement.tensor_parallel", "placement.pipeline_parallel",
                                 "placement.data_parallel", "placement.split_mode"};

// A simulation and the scenario to which it refers.
struct HeldSimulation {
  std::shared_ptr<const Scenario> scenario;
  LoadSimulation simulation;
};

// Of a mix that was asked for, with the cache that hardly loses anything.
std::optional<double> loss_of_stated(const Scenario& s, const planner::QualityTable& quality) {
  const auto mix = quality.of_mix(s.quant, s.model, double(s.tensors.elements()));
  const auto cache = quality.of_kv({QuantFormat::kQ8_0, QuantFormat::kQ8_0});
  return mix && cache ? std::optional((*mix + *cache).nats) : std::nullopt;
}

// A server on each GPU of a machine whose GPUs share every layer; nullopt: they do not, or one does
// not do.
std::optional<planner::ServerCopies> copies_of(const TomlDocument& document, const Scenario& s,
                                               const Catalogue& catalogue) {
  if (s.rig.gpus.empty() || !s.rig.gpus.front().shared) return std::nullopt;
  const int gpus = s.rig.gpus.front().shared->gpus;
  TomlDocument one = document.clone();
  one.erase("placement.tensor_parallel");
  if (one.set("rig.gpu", "[" + toml_text(s.rig.gpus.front().id) + "]", "plan")) return std::nullopt;
  auto scenario = make_scenario(one, catalogue);
  if (!scenario) return std::nullopt;
  scenario->rig.ram.capacity.value = scenario->rig.ram.capacity.value / double(gpus);
  return planner::ServerCopies{*std::move(scenario), gpus};
}

}  // namespace

planner::MakeServer simulated_server() {
  return [](std::shared_ptr<const Scenario> scenario) -> Result<planner::ServerForecast> {
    auto simulation = LoadSimulation::make(*scenario);
    if (!simulation) return simulation.error();
    const auto held = std::make_shared<HeldSimulation>(
        HeldSimulation{std::move(scenario), *std::move(simulation)});
    const auto at = [&held](MachineSpeed speed) -> planner::ServeLoad {
      return [held, speed](const Load& load) { return held->simulation.figures(load, speed); };
    };
    return planner::ServerForecast{at(MachineSpeed::kForecast), at(MachineSpeed::kSlowest),
                                   at(MachineSpeed::kFastest)};
  };
}

std::string note_on_ram(const Scenario& s) {
  const Placement placement = resolve_placement(s);
  return note_on_ram_limit(s, plan_memory(s, placement, s.workload.context).ram_cache);
}

planner::LoadSearch load_search(const TomlDocument& document, const Scenario& s,
                                const std::optional<double>& max_loss,
                                const planner::QualityTable& quality, const Catalogue& catalogue) {
  planner::LoadSearch search{space_of(document, s), {}, max_loss, false, {}, {}};
  const auto is_stated_key = [&](const char* key) { return document.has(key); };
  if (std::ranges::none_of(kUsesOfGpus, is_stated_key))
    search.copies = copies_of(document, s, catalogue);
  const bool has_blocks = s.scheduler && s.scheduler->layout == KvLayout::kBlocks;
  if (has_blocks) search.space.kv_types = {s.kv.types};  // no other cache is forecast
  std::erase_if(search.space.kv_types, [](KvTypes t) { return t.k == QuantFormat::kQ4_0; });
  if (search.space.kv_types.empty()) search.space.kv_types = {s.kv.types};
  search.fixed = {
      .sequences = document.has("scheduler.slots") || document.has("scheduler.max_sequences"),
      .ubatch = has_blocks || document.has("runtime.ubatch"),
      .budget = document.has("runtime.batch") || document.has("scheduler.token_budget")};
  const bool is_stated = search.space.quants.size() == 1;
  if (!search.max_loss)
    search.max_loss =
        is_stated ? loss_of_stated(s, quality) : planner::usual_loss(s.model, s.tensors, quality);
  return search;
}

std::optional<Error> check_amount(const TomlDocument& document, const Load& load) {
  if (auto error = planner::check_capacity(load)) return error;
  if (load.is_open() || load.users > 1 || document.has("workload.users") ||
      document.has("load.users"))
    return std::nullopt;
  return bad_input("how many users are to be served?",
                   "for example --users 40; `rigcast capacity` finds how many one machine serves");
}

std::optional<Error> check_constraints(const ConstraintFlags& c) {
  if (c.min_tps <= 0 && c.max_ttft.empty() && c.objective.empty()) return std::nullopt;
  return bad_input("--min-tps, --max-ttft and --objective are about a single request",
                   "of many, --slo says what is wanted: --slo ttft=2s@95,tpot=80ms@95");
}

}  // namespace rigcast::cli
