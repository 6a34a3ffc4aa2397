#include "core/base/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rigcast {

std::string_view name(SpeedMetric metric) {
  return metric == SpeedMetric::kDecode ? "tg_tps" : "pp_tps";
}

Seconds time_to_first_token(const TokenTimes& times) {
  return {times.at_s.empty() ? 0.0 : times.at_s.front()};
}

double tokens_per_second(const TokenTimes& times) {
  if (times.at_s.size() < 2) return 0.0;
  const double elapsed = times.at_s.back() - times.at_s.front();
  return elapsed > 0 ? double(times.at_s.size() - 1) / elapsed : 0.0;
}

std::vector<double> token_gaps(const TokenTimes& times) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < times.at_s.size(); ++i)
    gaps.push_back(times.at_s[i] - times.at_s[i - 1]);
  return gaps;
}

TpotSummary summarize(std::span<const double> gaps_s) {
  if (gaps_s.empty()) return {};
  std::vector<double> sorted(gaps_s.begin(), gaps_s.end());
  std::ranges::sort(sorted);
  const auto rank = [&](double share) {
    const auto n = std::size_t(std::ceil(share * double(sorted.size())));
    return Seconds{sorted[std::clamp<std::size_t>(n, 1, sorted.size()) - 1]};
  };
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  return {Seconds{sum / double(sorted.size())}, rank(0.5), rank(0.9), rank(0.99)};
}

}  // namespace rigcast
