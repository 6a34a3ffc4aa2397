#include "planner/load_plan/rig_loads_csv.hpp"

#include <fmt/format.h>

#include "core/text/csv_quote.hpp"

namespace rigcast::planner {
namespace {

constexpr const char* kWayColumns =
    "way,quant,servers,sequences,step_tokens,ubatch,loss_nats,serves,serves_lo,serves_hi,limited_"
    "by";

std::string number(const std::optional<double>& value) { return value ? csv_number(*value) : ""; }

std::string way_cells(const ServedWay& way) {
  const Scenario& s = *way.scenario;
  const bool has_interval = way.lowest && way.highest;
  // Blocks are computed a step at a time, not in ubatches.
  const std::string ubatch =
      s.scheduler->layout == KvLayout::kSlots ? std::to_string(s.settings.ubatch) : "";
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{}", csv_quote(text(way)), csv_quote(s.quant),
                     way.servers, s.scheduler->sequences, s.scheduler->step_tokens, ubatch,
                     csv_number(way.loss.nats), csv_number(way.most()),
                     has_interval ? csv_number(way.at_least()) : "",
                     has_interval ? csv_number(way.at_best()) : "", csv_quote(way.capacity.broken));
}

std::string machines_of(const std::optional<Fleet>& fleet) {
  return fleet ? csv_number(fleet->machines) : "";
}

// Of the share of one server: empty where nothing is served.
std::string latency_cells(const std::optional<Fleet>& fleet) {
  if (!fleet) return ",,,,";
  const ServingFigures& f = fleet->figures;
  return fmt::format("{},{},{},{},{}", csv_number(f.ttft.p50), csv_number(f.ttft.p95),
                     csv_number(f.tpot.p50), number(f.tpot.p99), f.meets_slo());
}
constexpr const char* kLatencyColumns = "ttft_p50_s,ttft_p95_s,tpot_p50_s,tpot_p99_s,meets_slo";

}  // namespace

std::string to_csv(const LoadPlan& plan, const PartsPrice& price) {
  std::string out = fmt::format("{},machines,usd,usd_each,{}\n", kWayColumns, kLatencyColumns);
  for (const LoadChoice& c : plan.choices) {
    std::optional<double> usd, each;
    if (c.fleet && price.usd) {
      usd = *price.usd * c.fleet->machines;
      each = *usd / plan.amount;
    }
    out += fmt::format("{},{},{},{},{}\n", way_cells(c.way), machines_of(c.fleet), number(usd),
                       number(each), latency_cells(c.fleet));
  }
  return out;
}

std::string to_csv(const std::vector<RigLoads>& models) {
  std::string out = fmt::format(
      "model,rig,{},machines,usd_of_machine,usd,usd_each,watts,{},"
      "qualifies,why_not\n",
      kWayColumns, kLatencyColumns);
  for (const RigLoads& loads : models)
    for (const RigLoad& r : loads.rigs)
      out += fmt::format(
          "{},{},{},{},{},{},{},{},{},{},{}\n", csv_quote(loads.model), csv_quote(r.name),
          r.way ? way_cells(*r.way) : ",,,,,,,,,,", machines_of(r.fleet), number(r.price.usd),
          r.fleet ? number(usd_of(loads, r)) : "", number(usd_each_of(loads, r)), number(r.watts),
          latency_cells(r.fleet), qualifies(loads, r), csv_quote(r.why_not));
  return out;
}

}  // namespace rigcast::planner
