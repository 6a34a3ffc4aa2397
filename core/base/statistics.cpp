#include "core/base/statistics.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace rigcast {
namespace {

// Sums of weights that should be equal differ in their last bits.
constexpr double kRounding = 1e-9;

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double weighted_quantile(std::span<const double> values, std::span<const double> weights,
                         double share) {
  if (values.empty()) return 0;
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values[i]; });
  const double wanted = share * std::reduce(weights.begin(), weights.end()) * (1 - kRounding);
  double reached = 0;
  for (const std::size_t i : order) {
    reached += weights[i];
    if (reached >= wanted) return values[i];
  }
  return values[order.back()];
}

double weighted_mean(std::span<const double> values, std::span<const double> weights) {
  return std::inner_product(values.begin(), values.end(), weights.begin(), 0.0) /
         std::reduce(weights.begin(), weights.end());
}

}  // namespace rigcast
