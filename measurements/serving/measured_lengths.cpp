#include "measurements/serving/measured_lengths.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace rigcast {
namespace {

// The spread of lengths of conversations is not stated with their mean. Assumed: that of answers in
// Azure's conversations of 2023, for prompts and answers (loads/chat.toml).
constexpr double kSigma = 0.86;

// Of a lognormal distribution with this mean and standard deviation, that of the logarithm.
double sigma_of(double mean, double deviation) {
  return std::sqrt(std::log1p(deviation * deviation / (mean * mean)));
}

std::string lognormal(double mean, double sigma) {
  const double median = mean / std::exp(sigma * sigma / 2);
  constexpr double kNineTenths = 1.2815515655446004;  // of a normal distribution
  return fmt::format("{{ median = {:.1f}, p90 = {:.1f} }}", std::max(1.0, median),
                     std::max(1.0, median * std::exp(kNineTenths * sigma)));
}

}  // namespace

std::vector<std::pair<TokenCount, double>> histogram_of(std::vector<double> tokens) {
  constexpr std::size_t kMaxBins = 256;
  std::map<TokenCount, double> counts;
  for (const double length : tokens) counts[TokenCount(std::llround(length))] += 1;
  if (counts.size() <= kMaxBins) return {counts.begin(), counts.end()};
  std::ranges::sort(tokens);
  std::vector<std::pair<TokenCount, double>> bins;
  for (std::size_t bin = 0; bin < kMaxBins; ++bin) {
    const auto begin = tokens.begin() + std::ptrdiff_t(bin * tokens.size() / kMaxBins);
    const auto end = tokens.begin() + std::ptrdiff_t((bin + 1) * tokens.size() / kMaxBins);
    const auto count = double(end - begin);
    bins.emplace_back(std::llround(std::accumulate(begin, end, 0.0) / count), count);
  }
  return bins;
}

std::string lengths_toml(double mean, const LengthSpread& spread, bool varied) {
  if (!spread.histogram.empty()) {
    std::vector<std::string> bins;
    for (const auto& [tokens, count] : spread.histogram)
      bins.push_back(fmt::format("[{}, {}]", tokens, count));
    return fmt::format("{{ histogram = [{}] }}", fmt::join(bins, ", "));
  }
  if (spread.range)
    return fmt::format("{{ min = {}, max = {} }}", spread.range->first, spread.range->second);
  const double sigma = spread.deviation && mean > 0 ? sigma_of(mean, *spread.deviation)
                       : varied                     ? kSigma
                                                    : 0;
  if (sigma > 0) return lognormal(mean, sigma);
  return fmt::format("{}", std::max<long long>(1, std::llround(mean)));
}

double longest(double mean, const LengthSpread& spread, bool varied) {
  if (!spread.histogram.empty()) return double(spread.histogram.back().first);
  if (spread.range) return double(spread.range->second);
  // One of a thousand is longer than the median's 3.1 sigma.
  if (spread.deviation && mean > 0) return mean * std::exp(3.1 * sigma_of(mean, *spread.deviation));
  return mean * (varied ? 8 : 1);
}

}  // namespace rigcast
