#include "report/report_csv.hpp"

#include <fmt/format.h>

#include "core/text/csv_quote.hpp"

namespace rigcast {
namespace {

std::string field(const std::optional<TtftBreakdown>& ttft) {
  return ttft ? csv_number(ttft->total().value) : "";
}

}  // namespace

std::string to_csv(const Report& report) {
  std::string out =
      "tokens,tokens_per_s,tpot_s,bound_by,ttft_resident_s,ttft_warm_s,ttft_cold_s,"
      "prefill_tokens_per_s\n";
  const std::string once = fmt::format("{},{},{},{}", field(report.resident), field(report.warm),
                                       field(report.cold), csv_number(report.prefill_tokens_per_s));
  for (const PositionSpeed& p : report.by_position)
    out += fmt::format("{},{},{},{},{}\n", p.tokens, csv_number(p.tokens_per_s),
                       csv_number(p.tpot.value), json_key(p.bound_by), once);
  return out;
}

}  // namespace rigcast
