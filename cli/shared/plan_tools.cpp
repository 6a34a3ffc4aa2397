#include "cli/shared/plan_tools.hpp"

#include <fmt/format.h>

#include "core/catalogue/find_model.hpp"
#include "core/text/unit_text.hpp"
#include "perfmodel/mean_turn.hpp"
#include "sim/simulate.hpp"

namespace rigcast::cli {

double request_seconds(const Scenario& s) { return mean_turn(s).value; }

Report forecast_to_rank(std::shared_ptr<const Scenario> scenario) {
  sim::SimulateOptions how;
  how.fidelity = sim::Fidelity::kSweep;
  how.cliffs = false;
  return sim::simulate(std::move(scenario), how);
}

Report forecast_to_show(std::shared_ptr<const Scenario> scenario,
                        std::vector<TokenCount> positions) {
  sim::SimulateOptions how;
  how.positions = std::move(positions);
  return sim::simulate(std::move(scenario), how);
}

planner::SearchSpace space_of(const TomlDocument& document, const Scenario& s) {
  planner::SearchSpace search_space = planner::full_space(s);
  const auto model = document.root().table("model").find_text_or_none("name");
  const bool is_named = model && states_quant(*model);
  if (is_named || document.has("model.quant") || document.has("model.size"))
    search_space.quants = {s.quant};
  if (document.has("kv.type_k") || document.has("kv.type_v")) search_space.kv_types = {s.kv.types};
  if (document.has("kv.policy")) search_space.policies = {s.kv.policy};
  if (document.has("runtime.ubatch")) search_space.ubatches = {s.settings.ubatch};
  if (document.has("runtime.threads")) search_space.threads.clear();
  if (document.has("placement.decode_device"))
    search_space.decode_devices = {s.placement.decode_device};
  const bool has_split = document.has("placement.tensor_split") ||
                         document.has("placement.cpu_moe_layers") ||
                         document.has("placement.cpu_ffn_layers");
  if (s.placement.gpu_layers || has_split) search_space.places_layers = false;
  return search_space;
}

void ConstraintFlags::add_to(CLI::App& verb) {
  constexpr const char* kGroup = "Plan";
  verb.add_option("--objective", objective, "speed, quality or context; else a balance")
      ->check(CLI::IsMember({"speed", "quality", "context"}))
      ->type_name("WHAT")
      ->group(kGroup);
  verb.add_option("--min-tps", min_tps, "tokens per second, at least")
      ->check(number_within(0, 1e9))
      ->type_name("X")
      ->group(kGroup);
  verb.add_option("--max-ttft", max_ttft, "time to first token, at most: 2 s")
      ->type_name("TIME")
      ->group(kGroup);
  verb.add_option("--max-loss", max_loss, "quality lost, at most, in nats: 0.02")
      ->check(number_within(0, 1e3))
      ->type_name("NATS")
      ->group(kGroup);
}

Result<planner::Constraints> ConstraintFlags::constraints() const {
  using planner::Objective;
  planner::Constraints constraints;
  constraints.min_tokens_per_s = min_tps;
  if (max_loss >= 0) constraints.max_loss = max_loss;
  const auto of_flag = [](const char* flag, Error error) {
    error.message = fmt::format("{}: {}", flag, error.message);
    return error;
  };
  if (!max_ttft.empty()) {
    auto time = parse_duration(max_ttft);
    if (!time) {
      return of_flag("--max-ttft", bad_input(time.error().message, "for example \"2 s\""));
    }
    constraints.max_ttft = *time;
  }
  if (objective == "speed") constraints.objective = Objective::kSpeed;
  if (objective == "quality") constraints.objective = Objective::kQuality;
  if (objective == "context") constraints.objective = Objective::kContext;
  return constraints;
}

Result<planner::QualityTable> read_quality(const Catalogue& catalogue) {
  return planner::QualityTable::read(catalogue.root() / "models" / "quality");
}

}  // namespace rigcast::cli
