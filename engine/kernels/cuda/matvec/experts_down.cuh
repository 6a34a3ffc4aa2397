#pragma once
// The last matrix of a token's experts, and their weighted sum. Weights may be read before the
// previous kernel has ended, as in matvec().

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/inputs.cuh"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"

namespace rigcast::engine::cuda {

struct ExpertsSum {
  const float* add = nullptr;  // [rows], may be `out`; null: none
  float* out = nullptr;        // [rows]
};
/// sum.out = sum.add + sum of weights[i] * ((down of expert i) x[i] + its bias), where x[i] is
/// token i of `x`. A shared expert's down, of the same format, is multiplied with what follows
/// these, and added as it is. Experts' ids and weights are read before the kernel in front of this
/// one has ended: that one must have let others start only after it had waited for what wrote them,
/// as experts_gate_up() does.
void experts_down(const DeviceMatrixStack& down, const ChosenExperts& experts, const Inputs& x,
                  const ExpertsSum& sum, const Stream& stream, Start start,
                  const DeviceMatrix& shared = {});

}  // namespace rigcast::engine::cuda
