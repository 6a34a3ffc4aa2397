#include "planner/recommend/recommend_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text/csv_quote.hpp"
#include "planner/commands.hpp"
#include "planner/output/plan_text.hpp"
#include "planner/recommend/recommend_text.hpp"
#include "report/json_values.hpp"
#include "report/report_json.hpp"

namespace rigcast::planner {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json facts_json(const ModelFacts& f) {
  return {{"model", f.name},
          {"released", f.released.empty() ? Json() : Json(f.released)},
          {"parameters", f.parameters},
          {"active_parameters", f.active_parameters},
          {"trained_context", f.context},
          {"for_code", f.is_for_code}};
}

Json server_json(const Report& r) {
  const Scenario& s = *r.scenario;
  if (!is_llama_cpp(s.runtime, s.kv.policy)) return {};
  return shell_text(llama_server_command(s, r.placement));
}

Json row_json(const Recommendation& r, const Recommended& row, const std::string& plan_command) {
  const Report& report = *row.report;
  Json out = facts_json(row.facts);
  out["plan"] = candidate_text(*report.scenario, row.candidate);
  out["quant"] = row.candidate.quant;
  out["context"] = row.candidate.context;
  out["max_context"] = report.max_context;
  out["loss_nats"] = row.candidate.loss.nats;
  out["loss_kind"] = name(row.candidate.loss.kind);
  out["loss_within_factor"] = row.candidate.loss.factor;
  out["max_loss_nats"] = row.max_loss;
  out["tokens_per_s"] = report.decode_tokens_per_s;
  out["first_token_s"] = report.resident->total().value;
  out["commands"] = {{"plan", plan_command_of(r, row, plan_command)},
                     {"llama-server", server_json(report)}};
  out["report"] = Json::parse(rigcast::to_json(report));
  return out;
}

Json left_out_json(const LeftOut& l) {
  Json out = facts_json(l.facts);
  out["reason"] = name(l.reason);
  out["text"] = l.text;
  out["tokens_per_s_at_most"] = or_null(l.tokens_per_s);
  return out;
}

}  // namespace

std::string to_json(const Recommendation& r, const std::string& plan_command) {
  Json rows = Json::array();
  for (const Recommended& row : r.rows)
    if (row.report) rows.push_back(row_json(r, row, plan_command));
  const auto first = std::ranges::find_if(r.rows, [](const auto& row) { return !!row.report; });
  const Json notes =
      first == r.rows.end() ? Json::array() : Json(first->report->scenario->rig.notes);
  const Asked& a = r.asked;
  const Json out = {{"schema", "rigcast.recommendation/1"},
                    {"for", name(a.purpose)},
                    {"rule", rule_text(r)},
                    {"rig_notes", notes},
                    {"context", a.context},
                    {"min_tokens_per_s", a.min_tokens_per_s},
                    {"max_loss_nats", or_null(a.max_loss)},
                    {"max_ttft_s", a.max_ttft ? Json(a.max_ttft->value) : Json()},
                    {"since", r.since.empty() ? Json() : Json(r.since)},
                    {"models", r.rows.size() + r.left_out.size()},
                    {"qualify", r.rows.size()},
                    {"choices", rows},
                    {"left_out", json_list(r.left_out, left_out_json)}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_csv(const Recommendation& r) {
  std::string out =
      "model,released,parameters,active_parameters,quant,plan,tokens_per_s,tokens_per_s_lo,"
      "tokens_per_s_hi,first_token_s,context,max_context,loss_nats\n";
  for (const Recommended& row : r.rows) {
    if (!row.report) continue;
    const Report& report = *row.report;
    const auto& speed = report.tokens_per_s_interval;
    out += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_quote(row.facts.name), row.facts.released,
        csv_number(row.facts.parameters), csv_number(row.facts.active_parameters),
        row.candidate.quant, csv_quote(candidate_text(*report.scenario, row.candidate)),
        csv_number(report.decode_tokens_per_s), speed ? csv_number(speed->lo) : "",
        speed ? csv_number(speed->hi) : "", csv_number(report.resident->total().value),
        row.candidate.context, report.max_context, csv_number(row.candidate.loss.nats));
  }
  return out;
}

}  // namespace rigcast::planner
