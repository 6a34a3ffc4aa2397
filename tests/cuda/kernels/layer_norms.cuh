#pragma once
// Norms that subtract the mean, in double, and tolerances of F32.

#include <cmath>
#include <span>
#include <vector>

namespace rigcast::fixtures {

struct LayerNorm {
  std::vector<double> value, allowed;

  /// `roundings`: of a sum over the row, one after the other in a thread and then over threads,
  /// each 2^-24 relative to the sum of magnitudes. The mean is off by as much of the mean
  /// magnitude; the variance by as much of itself, which the root halves. Then the difference, the
  /// mean square, eps, root, inverse, two products and the bias.
  LayerNorm(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
            double eps, double roundings) {
    constexpr double kUnit = 0x1p-24;
    const double n = double(x.size());
    double mean = 0, magnitude = 0, squares = 0;
    for (const float v : x) mean += double(v) / n, magnitude += std::abs(double(v)) / n;
    for (const float v : x) squares += (double(v) - mean) * (double(v) - mean);
    const double scale = 1 / std::sqrt(squares / n + eps);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double factor = scale * double(weight[i]);
      const double normed = (double(x[i]) - mean) * factor;
      value.push_back(normed + (bias.empty() ? 0 : double(bias[i])));
      allowed.push_back(kUnit * (std::abs(factor) * (roundings + 1) * magnitude +
                                 std::abs(normed) * (roundings / 2 + 8) + std::abs(value.back())));
    }
  }
};

}  // namespace rigcast::fixtures
