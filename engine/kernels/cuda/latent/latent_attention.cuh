#pragma once
// Attention of a step's rows to the latent cache, whose rows are keys and values of all heads.

#include <cuda_fp16.h>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kernels/cuda/latent/latent_blocks.hpp"

namespace rigcast::engine::cuda {

/// Queries [row][heads][cache.head_dim], from place_latent_rows() and the products with the keys'
/// matrix: scores are exponents of two. Values are the first `rank` elements of the cache's rows.
struct LatentAttention {
  const __half* queries = nullptr;
  int rows = 0, heads = 0;
  int rank = 0;  // a multiple of 64 up to kMaxLatentRank
  /// The first of `rows` in a step; rows of the cache are found by their places in it.
  int first = 0;
};

/// The splits of one token's attention to at most that many tokens.
int latent_splits(int tokens_upper_bound, int heads, int multiprocessors);

/// Partial attention of every row over the tokens up to its own, in `splits` parts. Partials are
/// [row][split][heads], of `rank` values. Rows' own keys are stored. `wanted`: where 0, a row's
/// splits are even parts of its context; else their lengths depend on its position and on nothing
/// else of the step but this number, and there must be enough of them. The cache: F16, Q8_0 or
/// Q4_0. The launch is kEarly. Throws CudaFailure, std::invalid_argument.
void attend_latent(const Stream& stream, const LatentAttention& attention, const Cache& cache,
                   int layer, int splits, int wanted, const StepRows& rows,
                   const Partials& partials);

/// out [row of the step][heads][rank] = the attention output, from one part.
void attend_latent_whole(const Stream& stream, const LatentAttention& attention, const Cache& cache,
                         int layer, const StepRows& rows, __half* out);

}  // namespace rigcast::engine::cuda
