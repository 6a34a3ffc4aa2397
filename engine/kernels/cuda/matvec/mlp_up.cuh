#pragma once
// The first matrix of an FFN without a gate, and the function behind it, for one token. Weights and
// biases may be read before the previous kernel has ended, as in matvec().

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/inputs.cuh"
#include "engine/kernels/cuda/activations/mlp_function.cuh"

namespace rigcast::engine::cuda {

/// out = function(up x + bias) * times. bias and times: [rows]; null: none. Where out is quantized,
/// rows are a multiple of 32. `times` may be written by the kernel before.
void mlp_up(const DeviceMatrix& up, const float* bias, const Inputs& x, const Outputs& out,
            const MlpFunction& function, const Stream& stream, Start start,
            const float* times = nullptr);

}  // namespace rigcast::engine::cuda
