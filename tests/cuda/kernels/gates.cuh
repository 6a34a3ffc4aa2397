#pragma once
// The gate of an FFN in double.

#include <algorithm>
#include <cmath>

#include "engine/kernels/cuda/activations/gate_function.cuh"

namespace rigcast::fixtures {

/// e for which the gate is x / (1 + exp(-e)).
inline double gate_exponent(double x, engine::cuda::GateFunction function) {
  using enum engine::cuda::GateFunction;
  if (function == kSilu) return x;
  if (function == kClampedSwiglu) return 1.702 * x;
  return 2 * std::sqrt(2 / 3.141592653589793) * (x + 0.044715 * x * x * x);
}
inline double gate_of(double x, engine::cuda::GateFunction function) {
  return x / (1 + std::exp(-gate_exponent(x, function)));
}

/// Gate and up as the function takes them: clamped SwiGLU bounds both, and adds 1 to up.
struct GateAndUp {
  double gate, up;
};
inline GateAndUp as_taken(double gate, double up, engine::cuda::GateFunction function) {
  if (function != engine::cuda::GateFunction::kClampedSwiglu) return {gate, up};
  return {std::min(gate, 7.0), std::clamp(up, -7.0, 7.0) + 1};
}
inline double gate_times_up(double gate, double up, engine::cuda::GateFunction function) {
  const GateAndUp in = as_taken(gate, up, function);
  return gate_of(in.gate, function) * in.up;
}

/// Tolerance of a gate times up, of which each is within its own bound: the slope of any function
/// is below 1.2, that of a clamp is 1; GELU's exponent is within 7 roundings, expf is off by 2
/// units, and sums, quotient and product round.
inline double gate_times_bound(double gate, double up, double gate_bound, double up_bound,
                               engine::cuda::GateFunction function) {
  const GateAndUp in = as_taken(gate, up, function);
  const double value = gate_of(in.gate, function);
  const bool exact = function == engine::cuda::GateFunction::kSilu;  // the exponent
  const double units = 8 + (exact ? 0 : 8 * std::abs(gate_exponent(in.gate, function)));
  return 1.2 * gate_bound * (std::abs(in.up) + up_bound) + std::abs(value) * up_bound +
         units * 0x1p-24 * std::abs(value * in.up);
}

}  // namespace rigcast::fixtures
