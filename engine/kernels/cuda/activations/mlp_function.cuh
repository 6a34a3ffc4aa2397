#pragma once
// The function of an FFN without a gate: out = function(up x + bias).

#include "engine/kernels/cuda/activations/gate_function.cuh"
#include "engine/model/hyperparameters.hpp"

namespace rigcast::engine::cuda {

/// GELU by its tanh, or xIELU with the numbers of a layer.
struct MlpFunction {
  bool is_xielu = false;
  Xielu xielu{};

#ifdef __CUDACC__
  __device__ __forceinline__ float operator()(float x) const {
    if (!is_xielu) return x / (1 + expf(-gate_exponent(x, GateFunction::kGelu)));
    const float linear = xielu.beta * x;
    if (x > 0) return fmaf(xielu.positive * x, x, linear);
    return fmaf(xielu.negative, expm1f(x < xielu.eps ? x : xielu.eps) - x, linear);
  }
#endif
};

}  // namespace rigcast::engine::cuda
