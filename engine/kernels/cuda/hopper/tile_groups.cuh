#pragma once
// Activations of a batch's experts, tiled: each group of tokens has its own, for group_tokens
// tokens (8, 16, 32 or 64), one group after the other.

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/batch/experts_batch.cuh"

namespace rigcast::engine::cuda {

/// The group size that suits `tokens` tokens: most groups have room for all tokens of an expert.
int tiled_group_tokens(int tokens, int used, int experts);

/// The values of all groups' activations of `columns` columns, whatever the tokens' choices are.
std::int64_t tiled_group_values(const ExpertGroups& groups, std::int64_t columns);

/// tiled = the rows of x[tokens][columns] that each group needs, in F16, clamped to +-65504. Queues
/// its work, kEarly. Throws CudaFailure, and std::invalid_argument where shapes do not fit.
void tile_groups(const Stream& stream, const ExpertGroups& groups, const float* x,
                 std::int64_t columns, __half* tiled);

}  // namespace rigcast::engine::cuda
