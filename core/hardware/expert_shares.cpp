#include "core/hardware/expert_shares.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"

namespace rigcast {
namespace {

// The mean of the largest of `count` independent numbers, each the successes of `trials` trials of
// `chance`: the sum over x of 1 - P(all <= x).
double mean_of_largest(double trials, double chance, int count) {
  if (chance >= 1) return trials;
  const double mean = trials * chance;
  constexpr double kDeviations = 10;  // beyond which nothing is left to count
  const double reach = kDeviations * (std::sqrt(mean * (1 - chance)) + 1);
  const double first = std::max(0.0, std::floor(mean - reach));
  const double last = std::min(trials, std::ceil(mean + reach));
  double probability =
      std::exp(std::lgamma(trials + 1) - std::lgamma(first + 1) - std::lgamma(trials - first + 1) +
               first * std::log(chance) + (trials - first) * std::log1p(-chance));
  double below = 0, sum = first;
  for (double x = first; x < last; ++x) {
    below += probability;
    sum += 1 - std::pow(std::min(1.0, below), count);
    probability *= (trials - x) / (x + 1) * chance / (1 - chance);
  }
  return sum;
}

}  // namespace

FullestShare fullest_share(int experts, int used, double tokens, int gpus) {
  RIGCAST_ASSERT(tokens > 0 && gpus > 0 && experts % gpus == 0);
  if (gpus == 1) return {};
  const double of_gpu = double(experts) / gpus;
  const double touched = 1 - std::pow(1 - double(used) / experts, tokens);
  const double rows = std::max(1.0, std::round(tokens)) * used;
  return {mean_of_largest(of_gpu, touched, gpus) / (of_gpu * touched),
          mean_of_largest(rows, 1.0 / gpus, gpus) / (rows / gpus)};
}

}  // namespace rigcast
