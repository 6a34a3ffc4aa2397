#include "planner/capacity/capacity_json.hpp"

#include <nlohmann/json.hpp>

#include "report/json_values.hpp"
#include "report/serving_json.hpp"

namespace rigcast::planner {
namespace {

using Json = nlohmann::ordered_json;

Json maybe_number(const std::optional<double>& value) {
  return value ? json_number(*value) : Json();
}

}  // namespace

std::string to_json(const CapacityReport& r) {
  const bool users = r.capacity.in_users;
  const auto only_if = [](bool is, Json value) { return is ? std::move(value) : Json(); };
  const Json interval = Json::array({maybe_number(r.lowest), maybe_number(r.highest)});
  const Json json = {
      {"schema", "rigcast.capacity/1"},
      {"rig", r.scenario.rig.name},
      {"model", r.scenario.model.id},
      {"quant", r.scenario.quant},
      {"runtime", r.scenario.runtime.id},
      {"load", text(r.load)},
      {"slo", text(r.load.slo)},
      {"users", only_if(users, json_number(r.capacity.most))},
      {"rate", only_if(!users, json_number(r.capacity.most))},
      {"interval", interval},
      {"limited_by", r.capacity.broken},
      {"limited_at", only_if(r.capacity.broken_at > 0, json_number(r.capacity.broken_at))},
      {"curve", json_list(r.capacity.curve,
                          [&](const CapacityPoint& p) -> Json {
                            Json point = {{users ? "users" : "rate", json_number(p.amount)}};
                            point.update(serving_figures_json(p.figures));
                            return point;
                          })},
      {"changes",
       json_list(r.changes,
                 [&](const CapacityChange& c) -> Json {
                   return {{"flags", c.flags}, {users ? "users" : "rate", json_number(c.most)}};
                 })},
      {"command", r.command},
      {"notes", r.notes},
      {"warnings", r.scenario.warnings},
  };
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rigcast::planner
