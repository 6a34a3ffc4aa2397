#pragma once
// Products of a batch's experts on Hopper's tensor cores, as tiled_gemm.cuh: each group of tokens
// has activations of its own, tiled for group_tokens tokens (8, 16, 32 or 64), those of the visited
// groups one after the other, each in whole tiles of columns. Calls queue their work, kEarly. All
// functions throw CudaFailure, and std::invalid_argument where formats or shapes do not fit.

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/activations/gate_function.cuh"
#include "engine/kernels/cuda/batch/experts_batch.cuh"
#include "engine/kernels/cuda/hopper/tile_groups.cuh"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"

namespace rigcast::engine::cuda {

/// True if the matrices of gate, up and down are multiplied by the functions below on this GPU.
bool supports_tiled_experts(const DeviceMatrixStack& gate, const DeviceMatrixStack& up,
                            const DeviceMatrixStack& down);

/// out = function(gate x) * (up x), clamped, tiled for each group as x.
void tiled_experts_gate_up(const DeviceMatrixStack& gate, const DeviceMatrixStack& up,
                           const ExpertGroups& groups, const __half* x, __half* out,
                           const Stream& stream, GateFunction function = GateFunction::kSilu);

/// out[choice][rows] = the product of the group's x and the down matrix of its expert.
void tiled_experts_down(const DeviceMatrixStack& down, const ExpertGroups& groups, const __half* x,
                        float* out, const Stream& stream);

}  // namespace rigcast::engine::cuda
