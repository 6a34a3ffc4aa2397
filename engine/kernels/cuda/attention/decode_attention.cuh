#pragma once
// Attention of one token (flash decoding): splits of the context give partial results, which are
// then merged.

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/inputs.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"

namespace rigcast::engine::cuda {

/// Partial results (m, l, o) for some tokens and each head, where scores s are exponents of two
/// (rope_and_store.cuh): l = sum of 2^(s - m), o = sum of 2^(s - m) * value. m is near the largest
/// score. A split that has seen no token has m = -infinity, and its o is neither written nor read.
/// For scores that are exponents of e, multiply m by log2(e).
struct Partials {
  float* m = nullptr;  // [split][heads]
  float* l = nullptr;  // [split][heads]
  float* o = nullptr;  // [split][heads][head_dim]
};

/// Attention of one new token in one layer. Its heads are first transformed as place() does. The
/// cache's blocks hold a multiple of 16 tokens and begin at multiples of 16 bytes; its types are
/// any of F16, Q8_0 and Q4_0.
struct DecodeAttention {
  NewTokenInputs inputs;  // one token; heads: a multiple of the cache's KV heads
  int window = 0;         // number of last tokens that are seen, this one included; 0: all
  /// True if *position, the cache's list of blocks and the rows before the position were written
  /// before the last launch that waited for all previous work (a graph's launch, or one with
  /// Start::kAfter). They are then read while earlier kernels still run.
  bool inputs_ready = false;
  int first_token = 0;  // earlier tokens are attended to elsewhere; a multiple of 16
  Start start = Start::kEarly;
};

/// The number of splits for contexts of up to this many tokens: enough to keep every multiprocessor
/// busy, with work for each. `fp16`: keys and values are both F16.
int attention_splits(int tokens_upper_bound, int kv_heads, int multiprocessors, bool fp16 = true);

/// Stores the new token's keys and values in the cache at *position, and attends to it and the
/// tokens before it. Writes partials [0, splits). head_dim: a multiple of 8 up to 256. Throws
/// CudaFailure.
void attend_partially(const Stream& stream, const DecodeAttention& attention, const Cache& cache,
                      int layer, int splits, const int* position, const Partials& partials);

/// out [heads][head_dim] = the attention output, merged from partials [0, count). heads * head_dim
/// is a multiple of 32. NaN where all partials are empty.
void merge_partials(const Stream& stream, const Partials& partials, int count, int heads,
                    int head_dim, const Outputs& out);

}  // namespace rigcast::engine::cuda
