#pragma once
// Attention of one token (flash decoding): splits of the context give partial results, which the
// last thread block of their heads merges, or merge_partials().

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/attention/soft_cap.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"

namespace rigcast::engine::cuda {

/// Attention of one new token in one layer. Its heads are first transformed as place() does. The
/// cache's blocks hold a multiple of 16 tokens and begin at multiples of 16 bytes; its types are
/// any of F16, Q8_0 and Q4_0.
struct DecodeAttention {
  NewTokenInputs inputs;  // one token; heads: a multiple of the cache's KV heads
  /// Number of last tokens that are seen, this one included; 0: all; negative: the context is cut
  /// into pieces of so many tokens, and the token's own is seen.
  int window = 0;
  /// True if *position, the cache's list of blocks and the rows before the position were written
  /// before the last launch that waited for all previous work (a graph's launch, or one with
  /// Start::kAfter). They are then read while earlier kernels still run. False where another layer
  /// has stored the new token (NewTokenInputs::stores).
  bool inputs_ready = false;
  int first_token = 0;  // earlier tokens are attended to elsewhere; a multiple of 16
  int max_tokens = 0;   // the longest context, this token included; 0: any
  Start start = Start::kEarly;
  SoftCap cap{};
};

/// The number of splits for contexts of up to this many tokens: enough to keep every multiprocessor
/// busy, with work for each. `fp16`: keys and values are both F16.
int attention_splits(int tokens_upper_bound, int kv_heads, int head_dim, int multiprocessors,
                     bool fp16 = true);

/// The longest context for which attention_splits() gives so many or fewer; 0: any.
int max_tokens_of_splits(int splits, int kv_heads, int head_dim, int multiprocessors,
                         bool fp16 = true);

/// Stores the new token's keys and values in the cache at *position, and attends to it and the
/// tokens before it. Writes partials [0, splits). head_dim: a multiple of 8 up to 512. Throws
/// CudaFailure.
void attend_partially(const Stream& stream, const DecodeAttention& attention, const Cache& cache,
                      int layer, int splits, const int* position, const Partials& partials);

/// Where the attention output is written, as merge_partials() does.
struct MergedHeads {
  Outputs out;
  Sinks sinks = nullptr;
  unsigned* arrivals = nullptr;  // [heads]: 0 before the first launch, and after each one
};

/// attend_partially() and merge_partials() of all splits, in one kernel unless the merge is longer
/// than another one takes. heads * head_dim is a multiple of 32.
void attend_and_merge(const Stream& stream, const DecodeAttention& attention, const Cache& cache,
                      int layer, int splits, const int* position, const Partials& partials,
                      const MergedHeads& to);

}  // namespace rigcast::engine::cuda
