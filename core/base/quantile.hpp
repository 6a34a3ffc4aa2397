#pragma once
// Medians and quantiles of values, which may weigh differently.

#include <span>
#include <vector>

namespace rigcast {

/// The mean of the two in the middle where there is an even number. Of at least one value.
double median(std::vector<double> values);

struct Weighted {
  double value, weight;
};

/// The smallest value up to which the weights reach `share` of their sum. `beyond`: weight that is
/// assumed outside the values, on either side. `values` must not be empty.
double weighted_quantile(std::span<const Weighted> values, double share, double beyond = 0);

}  // namespace rigcast
