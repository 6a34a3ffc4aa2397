#include "planner/output/plan_json.hpp"

#include <nlohmann/json.hpp>

#include "planner/commands.hpp"
#include "planner/output/plan_text.hpp"
#include "report/report_json.hpp"

namespace rigcast::planner {
namespace {

using Json = nlohmann::ordered_json;

// null: the program cannot run the plan.
Json commands_json(const Report& r) {
  const Scenario& s = *r.scenario;
  Json server, bench, modelfile;
  if (is_llama_cpp(s.runtime, s.kv.policy)) {
    server = shell_text(llama_server_command(s, r.placement));
    bench = Json::array();
    for (const Words& words : llama_bench_commands(r)) bench.push_back(shell_text(words));
  }
  if (!check_ollama(s)) modelfile = ollama_modelfile(s, r.placement);
  return {{"llama-server", server}, {"llama-bench", bench}, {"ollama", modelfile}};
}

Json quality_json(const QualityLoss& loss) {
  return {{"loss_nats", loss.nats}, {"kind", name(loss.kind)}, {"within_factor", loss.factor}};
}

Json placement_json(const PlacementSettings& p) {
  return {{"gpu_layers", p.gpu_layers.value_or(0)},
          {"tensor_split", p.tensor_split},
          {"cpu_moe_layers", p.cpu_moe_layers},
          {"cpu_ffn_layers", p.cpu_ffn_layers}};
}

Json ranked_json(const Scenario& base, const RankedPlan& c) {
  const Json report = Json::parse(to_json(c.report));
  return {{"what", candidate_text(base, c.candidate)},
          {"scenario", report.at("scenario")},
          {"report", report},
          {"quality", quality_json(c.candidate.loss)},
          {"first_token_s", c.first_token.value},
          {"request_s", c.request.value},
          {"turn_s", c.turn.value},
          {"unmet", c.unmet},
          {"on_front", c.on_front},
          {"knee", c.is_knee},
          {"commands", commands_json(c.report)}};
}

}  // namespace

std::string to_json(const Scenario& base, const Plan& plan, const std::string& why_not) {
  Json ranked = Json::array(), rejected = Json::array();
  for (const RankedPlan& c : plan.ranked) {
    const std::string reason = rejection_text(base, plan, c);
    if (reason.empty() || &c == &plan.ranked.front())
      ranked.push_back(ranked_json(base, c));
    else
      rejected.push_back({{"what", candidate_text(base, c.candidate)},
                          {"scenario", Json::parse(to_json(c.report)).at("scenario")},
                          {"reason", reason}});
  }
  Json crossover;
  if (plan.crossover)
    crossover = {{"prompt_tokens", plan.crossover->prompt_tokens},
                 {"below", placement_json(plan.crossover->below)},
                 {"from", placement_json(plan.crossover->from)}};
  const auto text_or_null = [](const std::string& s) { return s.empty() ? Json() : Json(s); };
  const Json out = {{"schema", "rigcast.plan/1"},
                    {"options", plan.candidates},
                    {"too_large", plan.too_large},
                    {"crossover", crossover},
                    {"choices", ranked},
                    {"rejected", rejected},
                    {"fits", !plan.ranked.empty()},
                    {"reason", text_or_null(why_not)},
                    {"would_fit", text_or_null(plan.would_fit)}};
  return out.dump(2) + "\n";
}

}  // namespace rigcast::planner
