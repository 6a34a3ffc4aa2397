#pragma once
// The first two matrices of an FFN with SwiGLU between them, for one token. Weights may be read
// before the previous kernel has ended, as in matvec().

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/gate_function.cuh"
#include "engine/kernels/cuda/activations/inputs.cuh"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"

namespace rigcast::engine::cuda {

/// out = function(gate x) * (up x), both of the same rows and columns.
void gate_up(const DeviceMatrix& gate, const DeviceMatrix& up, const Inputs& x, const Outputs& out,
             const Stream& stream, Start start, GateFunction function = GateFunction::kSilu);

/// As gate_up(), for each of the experts, whose biases are added before the function: the result of
/// expert i of `used` is at token i of `out`.
void experts_gate_up(const DeviceMatrixStack& gate, const DeviceMatrixStack& up,
                     const ChosenExperts& experts, const Inputs& x, const Outputs& out,
                     const Stream& stream, Start start,
                     GateFunction function = GateFunction::kSilu);

}  // namespace rigcast::engine::cuda
