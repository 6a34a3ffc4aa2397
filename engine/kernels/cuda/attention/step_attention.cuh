#pragma once
// Attention of a step's rows, each the last token of its own sequence, whose keys and values are
// stored. Splits of the contexts give partial results, which merge_rows() (merge_partials.cuh)
// merges.

#include <cuda_fp16.h>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/attention/soft_cap.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"

namespace rigcast::engine::cuda {

struct StepAttention {
  const __half* queries = nullptr;  // [rows][heads][head_dim], as rope_and_store() writes them
  int rows = 0;
  int heads = 0;   // a multiple of the cache's KV heads
  int window = 0;  // as of DecodeAttention
  SoftCap cap{};
  Sinks sinks = nullptr;  // of rows that have one split; merge_rows() adds those of others
};

/// How contexts are split: into `wanted` parts each, if these have 128 to 2,048 tokens, so that the
/// rows of a step occupy the GPU. The splits of a row depend on how many rows there are and on its
/// own context, and not on what the other rows are, so that no bit of its result does.
struct StepSplits {
  int wanted = 1;
  int count = 1;  // the most that a row has
};
/// `rows`: of the step; `context`: the longest, or more.
StepSplits step_splits(int rows, int kv_heads, int context);

/// Writes partials [row][split][heads], for splits [0, splits.count), or, where that is one, the
/// attention outputs of the rows to `out`, which is not used otherwise. The cache's blocks hold a
/// multiple of 16 tokens and begin at multiples of 16 bytes; its types are any of F16, Q8_0 and
/// Q4_0. head_dim: a multiple of 8 up to 512. What `rows` and `cache` point to, and the keys and
/// values of all tokens but each row's own, are read before the previous kernel has ended. Throws
/// CudaFailure.
void attend_rows(const Stream& stream, const StepAttention& attention, const Cache& cache,
                 int layer, const StepSplits& splits, const StepRows& rows,
                 const Partials& partials, const HalfRows& out);

}  // namespace rigcast::engine::cuda
