// One line per decoded position; figures of the whole run are repeated, so that every line is
// complete.
#include <fmt/format.h>

#include <cmath>

#include "report/report.hpp"

namespace rigcast {
namespace {

std::string field(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string field(const std::optional<TtftBreakdown>& ttft) {
  return ttft ? field(ttft->total().value) : "";
}

}  // namespace

std::string to_csv(const Report& report) {
  std::string out =
      "tokens,tokens_per_s,tpot_s,bound_by,ttft_resident_s,ttft_warm_s,ttft_cold_s,"
      "prefill_tokens_per_s\n";
  const std::string once = fmt::format("{},{},{},{}", field(report.resident), field(report.warm),
                                       field(report.cold), field(report.prefill_tokens_per_s));
  for (const PositionSpeed& p : report.by_position)
    out += fmt::format("{},{},{},{},{}\n", p.tokens, field(p.tokens_per_s), field(p.tpot.value),
                       json_key(p.bound_by), once);
  return out;
}

}  // namespace rigcast
