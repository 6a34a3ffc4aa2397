#pragma once
// The function of the gate in an FFN: out = function(gate x) * (up x). The clamped one bounds both
// factors, and adds 1 to that of up.

namespace rigcast::engine::cuda {

enum class GateFunction {
  kSilu,           // x / (1 + e^-x)
  kGelu,           // GELU by its tanh: x / (1 + e^-2u), where u = sqrt(2 / pi) (x + 0.044715 x^3)
  kRelu,           // x of positive x, else 0: with gate = up, the square of that
  kClampedSwiglu,  // x / (1 + e^(-1.702 x)) for x of at most 7; up: clamped to +-7, plus 1
};

#ifdef __CUDACC__
/// The argument of the function, and what its result is multiplied by.
struct GateAndUp {
  float gate, up;
};
__device__ __forceinline__ GateAndUp as_taken(float gate, float up, GateFunction function) {
  if (function != GateFunction::kClampedSwiglu) return {gate, up};
  constexpr float kLimit = 7;  // comparisons leave NaN as it is
  return {gate > kLimit ? kLimit : gate, (up > kLimit ? kLimit : up < -kLimit ? -kLimit : up) + 1};
}

/// e such that the gate is x / (1 + exp(-e)). Each kernel has its own exponential.
__device__ __forceinline__ float gate_exponent(float x, GateFunction function) {
  constexpr float kTwice = 1.5957691216057308f;  // 2 sqrt(2 / pi)
  constexpr float kSteep = 88;                   // e^-88 is 0 beside 1, and x / e^88 beside any x
  if (function == GateFunction::kRelu) return x > 0 ? kSteep : -kSteep;
  return function == GateFunction::kSilu   ? x
         : function == GateFunction::kGelu ? kTwice * x * (1 + 0.044715f * x * x)
                                           : 1.702f * x;
}
#endif

}  // namespace rigcast::engine::cuda
