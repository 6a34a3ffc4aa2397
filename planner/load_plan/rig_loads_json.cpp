#include "planner/load_plan/rig_loads_json.hpp"

#include <nlohmann/json.hpp>

#include "planner/load_plan/way_commands.hpp"
#include "report/json_values.hpp"
#include "report/serving_json.hpp"

namespace rigcast::planner {
namespace {

using Json = nlohmann::ordered_json;

Json maybe(const std::optional<double>& value) { return value ? json_number(*value) : Json(); }

Json way_json(const ServedWay& way) {
  const Scenario& s = *way.scenario;
  const auto whole = [&](const std::optional<double>& of_one) {
    return of_one ? json_number(*of_one * way.servers) : Json();
  };
  return {{"what", text(way)},
          {"quant", s.quant},
          {"kv_types", text(s.kv.types)},
          {"sequences", s.scheduler->sequences},
          {"step_tokens", s.scheduler->step_tokens},
          {"ubatch", s.settings.ubatch},
          {"gpus", std::string(name(way.use))},
          {"servers", way.servers},
          {"loss_nats", json_number(way.loss.nats)},
          {"serves", json_number(way.most())},
          {"interval", Json::array({whole(way.lowest), whole(way.highest)})},
          {"limited_by", way.capacity.broken},
          {"command", text_of(commands_of(way))}};
}

Json fleet_json(const std::optional<Fleet>& fleet) {
  if (!fleet) return {};
  Json out = {{"machines", json_number(fleet->machines)},
              {"interval", Json::array({maybe(fleet->at_best), maybe(fleet->at_least)})},
              {"machines_by_capacity", json_number(fleet->by_capacity)},
              {"broken_by_chance", fleet->has_added() ? Json(fleet->broken_by_chance) : Json()},
              {"share_of_server", json_number(fleet->share)},
              {"meets_slo", fleet->figures.meets_slo()}};
  out.update(serving_figures_json(fleet->figures));
  return out;
}

std::string price_of(Comparison::What what) {
  switch (what) {
    case Comparison::What::kGpus: return "gpus";
    case Comparison::What::kRigs: return "machine";
    case Comparison::What::kUpgrades: break;
  }
  return "new part";
}

std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string to_json(const Scenario& s, const LoadPlan& plan, const PartsPrice& price,
                    const std::vector<std::string>& notes) {
  const bool users = !s.load->is_open();
  const auto choice = [&](const LoadChoice& c) {
    Json out = way_json(c.way);
    out["fleet"] = fleet_json(c.fleet);
    out["usd"] = c.fleet && price.usd ? json_number(*price.usd * c.fleet->machines) : Json();
    return out;
  };
  return dumped({{"schema", "rigcast.load_plan/1"},
                 {"rig", s.rig.name},
                 {"model", s.model.id},
                 {"runtime", s.runtime.id},
                 {"load", text(*s.load)},
                 {"slo", text(s.load->slo)},
                 {"users", users ? json_number(plan.amount) : Json()},
                 {"rate", users ? Json() : json_number(plan.amount)},
                 {"max_loss_nats", maybe(plan.max_loss)},
                 {"usd_of_machine", maybe(price.usd)},
                 {"too_large", plan.too_large},
                 {"choices", json_list(plan.choices, choice)},
                 {"notes", notes},
                 {"warnings", s.warnings}});
}

namespace {

Json json_of(const RigLoads& loads) {
  const auto rig = [&](const RigLoad& r) {
    Json out = {{"rig", r.name},
                {"usd_of_machine", maybe(r.price.usd)},
                {"unpriced", r.price.unpriced},
                {"watts", maybe(r.watts)},
                {"way", r.way ? way_json(*r.way) : Json()},
                {"why_not", r.why_not},
                {"notes", r.notes}};
    if (const std::string added = added_text(loads, r); !added.empty())
      out["notes"].push_back(added);
    if (loads.amount) {
      out["fleet"] = fleet_json(r.fleet);
      out["usd"] = r.fleet ? maybe(usd_of(loads, r)) : Json();
      out["qualifies"] = qualifies(loads, r);
    }
    out["usd_each"] = maybe(usd_each_of(loads, r));
    return out;
  };
  Json out = {{"schema", loads.amount ? "rigcast.load_comparison/1" : "rigcast.capacities/1"},
              {"model", loads.model},
              {"load", loads.load},
              {"slo", loads.slo},
              {"price_of", price_of(loads.what)}};
  if (loads.amount) {
    out["users"] = loads.in_users ? json_number(*loads.amount) : Json();
    out["rate"] = loads.in_users ? Json() : json_number(*loads.amount);
    out["budget_usd"] = maybe(loads.budget);
    out["beyond_budget"] = loads.beyond_budget;
    out["max_loss_nats"] = maybe(loads.max_loss);
  }
  out["unit"] = loads.in_users ? "users" : "requests/s";
  out["verdict"] = verdict_text(loads);
  out["rigs"] = json_list(loads.rigs, rig);
  return out;
}

}  // namespace

std::string to_json(const std::vector<RigLoads>& models) {
  if (models.size() == 1) return dumped(json_of(models.front()));
  const bool has_amount = !models.empty() && models.front().amount;
  return dumped({{"schema", has_amount ? "rigcast.load_comparisons/1" : "rigcast.capacities_of/1"},
                 {"models", json_list(models, json_of)}});
}

}  // namespace rigcast::planner
