#pragma once
// TTFT, TPOT and TPS as functions of timestamps, the same for a forecast and for a run.

#include <span>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"

namespace rigcast {

/// The two speeds of a run: tokens generated, and prompt tokens processed, per second.
enum class SpeedMetric { kDecode, kPrefill };
/// "tg_tps", "pp_tps", as profiles and measurements name them.
std::string_view name(SpeedMetric metric);

/// A token's time stamp is when its id is known on the host, in seconds since the request.
struct TokenTimes {
  std::vector<double> at_s;  // first token first
};

/// From the request to the first token.
Seconds time_to_first_token(const TokenTimes& times);
/// (N - 1) / (t_N - t_1); 0 for fewer than two tokens.
double tokens_per_second(const TokenTimes& times);
/// Gaps between neighbouring tokens.
std::vector<double> token_gaps(const TokenTimes& times);

struct TpotSummary {
  Seconds mean, p50, p90, p99;
};
/// Percentiles by nearest rank; zeros if there is no gap.
TpotSummary summarize(std::span<const double> gaps_s);

}  // namespace rigcast
