#pragma once
// Lengths of the requests of a benchmark, as the keys of a load.

#include <string>
#include <utility>
#include <vector>

#include "measurements/serving/serving_measurement.hpp"

namespace rigcast {

/// Lengths of requests, in bins of as many where there are more than 256.
std::vector<std::pair<TokenCount, double>> histogram_of(std::vector<double> tokens);

/// A length of `[load]` in TOML. Where the spread states nothing: `varied`, as in conversations,
/// else alike.
std::string lengths_toml(double mean, const LengthSpread& spread, bool varied);

/// The longest that a request may be without a context that cuts it.
double longest(double mean, const LengthSpread& spread, bool varied);

}  // namespace rigcast
