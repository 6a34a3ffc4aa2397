#include "planner/output/compare_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/text/csv_quote.hpp"
#include "planner/output/plan_text.hpp"
#include "report/json_values.hpp"
#include "report/report_json.hpp"

namespace rigcast::planner {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json price_json(const PartsPrice& price) {
  const auto part = [](const Price& p) {
    return Json{{"part", p.part},
                {"usd", p.usd},
                {"kind", name(p.kind)},
                {"date", p.date.empty() ? Json() : Json(p.date)},
                {"source", p.source}};
  };
  return {{"parts", json_list(price.parts, part)}, {"unpriced", price.unpriced}};
}

Json model_json(const ComparedModel& m, bool is_computed) {
  Json out = {{"model", m.model},
              {"fits", is_computed ? Json(m.best.has_value()) : Json()},
              {"max_loss_nats", or_null(m.max_loss)},
              {"plan", Json()},
              {"loss_nats", Json()},
              {"first_token_s", Json()},
              {"turn_s", Json()},
              {"unmet", Json()},
              {"lack", Json()},
              {"report", Json()}};
  if (!m.best) {
    out["lack"] = m.why_not;
    return out;
  }
  out["plan"] = candidate_text(*m.best->report.scenario, m.best->candidate);
  out["loss_nats"] = m.best->candidate.loss.nats;
  out["first_token_s"] = m.best->first_token.value;
  out["turn_s"] = m.best->turn.value;
  if (!m.best->unmet.empty()) out["unmet"] = m.best->unmet;
  out["report"] = Json::parse(rigcast::to_json(m.best->report));
  return out;
}

std::string_view name(Comparison::What what) {
  switch (what) {
    case Comparison::What::kRigs: return "machine";
    case Comparison::What::kGpus: return "gpus";
    case Comparison::What::kUpgrades: return "new part";
  }
  return "";
}

}  // namespace

std::string to_json(const Comparison& c) {
  const auto rig = [&](const ComparedRig& r) {
    return Json{{"rig", r.name},
                {"usd", or_null(r.price.usd)},
                {"price", price_json(r.price)},
                {"watts", or_null(r.watts)},
                {"qualifies", r.qualifies(c.budget)},
                {"models", json_list(r.models, [&](const ComparedModel& m) {
                   return model_json(m, !r.is_beyond_budget);
                 })}};
  };
  const Json out = {{"schema", "rigcast.comparison/1"}, {"price_of", name(c.what)},
                    {"budget_usd", or_null(c.budget)},  {"beyond_budget", c.beyond_budget},
                    {"verdict", verdict_text(c)},       {"ties", ties(c)},
                    {"rigs", json_list(c.rigs, rig)}};
  return out.dump(2) + "\n";
}

std::string to_csv(const Comparison& c) {
  std::string out =
      "rig,model,fits,plan,quant,loss_nats,first_token_s,turn_s,tokens_per_s,tokens_per_s_lo,"
      "tokens_per_s_hi,max_context,usd,watts,qualifies,unmet\n";
  const auto number = [](const std::optional<double>& x) { return x ? csv_number(*x) : ""; };
  for (const ComparedRig& r : c.rigs)
    for (const ComparedModel& m : r.models) {
      const char* fits = r.is_beyond_budget ? "" : m.best ? "true" : "false";
      out += fmt::format("{},{},{},", csv_quote(r.name), csv_quote(m.model), fits);
      if (m.best) {
        const Report& report = m.best->report;
        const auto& speed = report.tokens_per_s_interval;
        out +=
            fmt::format("{},{},{},{},{},{},{},{},{},",
                        csv_quote(candidate_text(*report.scenario, m.best->candidate)),
                        m.best->candidate.quant, csv_number(m.best->candidate.loss.nats),
                        csv_number(m.best->first_token.value), csv_number(m.best->turn.value),
                        csv_number(report.decode_tokens_per_s), speed ? csv_number(speed->lo) : "",
                        speed ? csv_number(speed->hi) : "", report.max_context);
      } else {
        out += ",,,,,,,,,";
      }
      out += fmt::format("{},{},{},{}\n", number(r.price.usd), number(r.watts),
                         r.qualifies(c.budget), csv_quote(m.best ? m.best->unmet : m.why_not));
    }
  return out;
}

}  // namespace rigcast::planner
