#pragma once
// The function of the gate in an FFN: out = function(gate x) * (up x).

namespace rigcast::engine::cuda {

enum class GateFunction {
  kSilu,  // x / (1 + e^-x)
  kGelu,  // GELU by its tanh: x / (1 + e^-2u), where u = sqrt(2 / pi) (x + 0.044715 x^3)
};

#ifdef __CUDACC__
/// e such that the gate is x / (1 + exp(-e)). Each kernel has its own exponential.
__device__ __forceinline__ float gate_exponent(float x, GateFunction function) {
  constexpr float kTwice = 1.5957691216057308f;  // 2 sqrt(2 / pi)
  return function == GateFunction::kSilu ? x : kTwice * x * (1 + 0.044715f * x * x);
}
#endif

}  // namespace rigcast::engine::cuda
