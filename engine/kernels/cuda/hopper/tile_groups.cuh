#pragma once
// Activations of a batch's experts, tiled: each group of tokens has its own, for group_tokens
// tokens (8, 16, 32 or 64), one group after the other.

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/batch/experts_batch.cuh"

namespace rigcast::engine::cuda {

/// The group size with which `tokens` tokens take the least time: a group of 16 takes 1.1 times as
/// long as one of 8, 32 1.3 times and 64 1.7 times (Q4_K, H200), and experts with more tokens take
/// several. Tokens choose experts independently.
int tiled_group_tokens(int tokens, int used, int experts);

/// The values of the visited groups' activations of `columns` columns, in whole tiles, whatever the
/// tokens' choices are.
std::int64_t tiled_group_values(const ExpertGroups& groups, std::int64_t columns);

/// tiled = the rows of x[tokens][columns] that each visited group needs, in F16, clamped to
/// +-65504, with zeros up to a whole tile of columns. Queues its work, kEarly. Throws CudaFailure,
/// and std::invalid_argument where shapes do not fit.
void tile_groups(const Stream& stream, const ExpertGroups& groups, const float* x,
                 std::int64_t columns, __half* tiled);

}  // namespace rigcast::engine::cuda
