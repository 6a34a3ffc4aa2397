#pragma once
// Steps of every quantizer: find a range, round a scale, choose the nearest code.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "engine/kernels/ref/half.hpp"

namespace rigcast::engine::ref {

/// The value of the largest magnitude, with its sign.
inline float largest(const float* x, int n) {
  return *std::max_element(x, x + n, [](float a, float b) { return std::abs(a) < std::abs(b); });
}

struct Range {
  double low = 0;
  double high = 0;
};
inline Range range_of(const float* x, int n) {
  const auto [low, high] = std::minmax_element(x, x + n);
  return {double(*low), double(*high)};
}

/// Writes the nearest finite FP16 number, and returns the value that a reader will see.
inline float put_half(std::uint8_t* at, double value) {
  constexpr double kLargestHalf = 65504;
  const std::uint16_t bits = float_to_half(float(std::clamp(value, -kLargestHalf, kLargestHalf)));
  at[0] = std::uint8_t(bits);
  at[1] = std::uint8_t(bits >> 8);
  return half_to_float(bits);
}

/// The number of steps nearest to `value`, within [low, high]; 0 if the step is 0 or the result is
/// NaN.
inline int nearest_level(double value, double step, int low, int high) {
  const double steps = step == 0 ? 0 : std::nearbyint(value / step);
  return std::isnan(steps) ? std::clamp(0, low, high)
                           : int(std::clamp(steps, double(low), double(high)));
}

/// The index of the entry nearest to value / step.
inline int nearest_entry(const std::array<std::int8_t, 16>& table, double value, double step) {
  const double wanted = step == 0 ? 0 : std::clamp(value / step, -1e3, 1e3);
  const auto nearer = [wanted](int a, int b) {
    return std::abs(a - wanted) < std::abs(b - wanted);
  };
  return int(std::min_element(table.begin(), table.end(), nearer) - table.begin());
}

}  // namespace rigcast::engine::ref
