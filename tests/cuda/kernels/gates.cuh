#pragma once
// The gate of an FFN in double.

#include <cmath>

#include "engine/kernels/cuda/activations/gate_function.cuh"

namespace rigcast::fixtures {

/// e for which the gate is x / (1 + exp(-e)).
inline double gate_exponent(double x, engine::cuda::GateFunction function) {
  if (function == engine::cuda::GateFunction::kSilu) return x;
  return 2 * std::sqrt(2 / 3.141592653589793) * (x + 0.044715 * x * x * x);
}
inline double gate_of(double x, engine::cuda::GateFunction function) {
  return x / (1 + std::exp(-gate_exponent(x, function)));
}

/// Tolerance of a gate times up, of which each is within its own bound: the slope of either
/// function is below 1.2; GELU's exponent is within 7 roundings, expf is off by 2 units, and sum,
/// quotient and product round.
inline double gate_times_bound(double gate, double up, double gate_bound, double up_bound,
                               engine::cuda::GateFunction function) {
  const double value = gate_of(gate, function);
  const bool gelu = function == engine::cuda::GateFunction::kGelu;
  const double units = 8 + (gelu ? 8 * std::abs(gate_exponent(gate, function)) : 0);
  return 1.2 * gate_bound * (std::abs(up) + up_bound) + std::abs(value) * up_bound +
         units * 0x1p-24 * std::abs(value * up);
}

}  // namespace rigcast::fixtures
