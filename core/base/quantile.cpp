#include "core/base/quantile.hpp"

#include <algorithm>

#include "core/base/error.hpp"

namespace rigcast {
namespace {

// Sums of weights that should be equal differ in their last bits.
constexpr double kRounding = 1e-12;

}  // namespace

double median(std::vector<double> values) {
  RIGCAST_ASSERT(!values.empty());
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

double weighted_quantile(std::span<const Weighted> values, double share, double beyond) {
  RIGCAST_ASSERT(!values.empty());
  std::vector<Weighted> ordered(values.begin(), values.end());
  std::ranges::stable_sort(ordered, {}, &Weighted::value);
  double all = 2 * beyond, reached = beyond;
  for (const Weighted& v : ordered) all += v.weight;
  for (const Weighted& v : ordered) {
    reached += v.weight;
    if (reached >= share * all * (1 - kRounding)) return v.value;
  }
  return ordered.back().value;
}

}  // namespace rigcast
