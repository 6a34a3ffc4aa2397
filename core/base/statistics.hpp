#pragma once
// Medians and quantiles of measured values.

#include <span>
#include <vector>

namespace rigcast {

/// The middle value; the mean of the two in the middle of an even number; 0 of none.
double median(std::vector<double> values);

/// The smallest value up to which the weights reach `share` of their sum; 0 of none. `weights` has
/// one for each value.
double weighted_quantile(std::span<const double> values, std::span<const double> weights,
                         double share);

/// The sum of value x weight over the sum of the weights, which is not 0.
double weighted_mean(std::span<const double> values, std::span<const double> weights);

}  // namespace rigcast
