#pragma once
// The first two matrices of an FFN with SwiGLU between them, for one token. Weights may be read
// before the previous kernel has ended, as in matvec().

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/gate_function.cuh"
#include "engine/kernels/cuda/activations/inputs.cuh"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"

namespace rigcast::engine::cuda {

/// out = function(gate x) * (up x), both of the same rows and columns; times *weight, if there is
/// one.
void gate_up(const DeviceMatrix& gate, const DeviceMatrix& up, const Inputs& x, const Outputs& out,
             const Stream& stream, Start start, GateFunction function = GateFunction::kSilu,
             const float* weight = nullptr);

/// True if experts_gate_up() computes the shared expert in the same launch: it has the formats of
/// the others, and whole blocks of rows.
bool joins_gate_up(const SharedExpert& shared, const DeviceMatrixStack& gate,
                   const DeviceMatrixStack& up);

/// As gate_up(), for each of the experts, whose biases are added before the function: the result of
/// expert i of `used` is at token i of `out`. A shared expert's result, SiLU(gate x) * (up x) times
/// its weight, follows these. `input_weights`: [used], of what the chosen read, without biases;
/// null: 1.
void experts_gate_up(const DeviceMatrixStack& gate, const DeviceMatrixStack& up,
                     const ChosenExperts& experts, const Inputs& x, const Outputs& out,
                     const Stream& stream, Start start, GateFunction function = GateFunction::kSilu,
                     const SharedExpert& shared = {}, const float* input_weights = nullptr);

}  // namespace rigcast::engine::cuda
