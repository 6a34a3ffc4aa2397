#include "planner/output/plan_csv.hpp"

#include <fmt/format.h>

#include "core/text/csv_quote.hpp"
#include "planner/output/plan_text.hpp"

namespace rigcast::planner {

std::string to_csv(const Scenario& base, const Plan& plan) {
  std::string out =
      "what,quant,type_k,type_v,policy,gpu_layers,cpu_moe_layers,cpu_ffn_layers,ubatch,context,"
      "loss_nats,first_token_s,request_s,turn_s,tokens_per_s,tokens_per_s_lo,tokens_per_s_hi,"
      "max_context,on_front,knee,unmet\n";
  for (const RankedPlan& c : plan.ranked) {
    const Candidate& o = c.candidate;
    const Report& r = c.report;
    const auto& speed = r.tokens_per_s_interval;
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},", csv_quote(candidate_text(base, o)),
                       o.quant, kv_type_name(o.kv_types.k), kv_type_name(o.kv_types.v),
                       name(o.policy), r.placement.gpu_layers, r.placement.cpu_moe_layers,
                       o.placement.cpu_ffn_layers, o.ubatch, o.context);
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", csv_number(o.loss.nats),
                       csv_number(c.first_token.value), csv_number(c.request.value),
                       csv_number(c.turn.value), csv_number(r.decode_tokens_per_s),
                       speed ? csv_number(speed->lo) : "", speed ? csv_number(speed->hi) : "",
                       r.max_context, c.on_front, c.is_knee, csv_quote(c.unmet));
  }
  return out;
}

}  // namespace rigcast::planner
