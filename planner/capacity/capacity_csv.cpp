#include "planner/capacity/capacity_csv.hpp"

#include <fmt/format.h>

#include "core/text/csv_quote.hpp"

namespace rigcast::planner {

std::string to_csv(const CapacityReport& r) {
  const auto number = [](const std::optional<double>& x) { return x ? csv_number(*x) : ""; };
  std::string out = fmt::format(
      "{},requests_per_s,output_tokens_per_s,ttft_p50_s,ttft_p95_s,ttft_p99_s,tpot_p50_s,"
      "tpot_p95_s,tpot_p99_s,share_in_slo,meets_slo,is_capacity,state\n",
      r.capacity.in_users ? "users" : "rate");
  for (const CapacityPoint& p : r.capacity.curve) {
    const ServingFigures& f = p.figures;
    // Waits of a server that does not keep up would grow with every further request.
    const bool waits_end = f.state != ServingState::kOverloaded;
    const auto wait = [&](const std::optional<double>& x) { return waits_end ? number(x) : ""; };
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_number(p.amount),
                       csv_number(f.requests_per_s), csv_number(f.output_tokens_per_s),
                       wait(f.ttft.p50), wait(f.ttft.p95), wait(f.ttft.p99), csv_number(f.tpot.p50),
                       csv_number(f.tpot.p95), number(f.tpot.p99), number(f.share_in_slo),
                       f.meets_slo(), p.amount == r.capacity.most, name(f.state));
  }
  return out;
}

}  // namespace rigcast::planner
