#pragma once
// Attention of a step's rows, each the last token of its own sequence, whose keys and values are
// stored. Splits of the contexts give partial results, which merge_rows() (merge_partials.cuh)
// merges.

#include <cuda_fp16.h>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"

namespace rigcast::engine::cuda {

struct StepAttention {
  const __half* queries = nullptr;  // [rows][heads][head_dim], as rope_and_store() writes them
  int rows = 0;
  int heads = 0;   // a multiple of the cache's KV heads
  int window = 0;  // number of last tokens that each row sees, itself included; 0: all
};

/// The number of splits for contexts of up to this many tokens. A split has the same tokens
/// whatever the other rows are, so that no bit of a row's result depends on them.
int step_splits(int tokens_upper_bound);

/// Writes partials [row][split][heads], for splits [0, splits). The cache's blocks hold a multiple
/// of 16 tokens and begin at multiples of 16 bytes; its types are any of F16, Q8_0 and Q4_0.
/// head_dim: a multiple of 8 up to 256. The kernel starts after all queued work. Throws
/// CudaFailure.
void attend_rows(const Stream& stream, const StepAttention& attention, const Cache& cache,
                 int layer, int splits, const StepRows& rows, const Partials& partials);

}  // namespace rigcast::engine::cuda
