#pragma once
// Attention of one token: splits of the context give partial results, which are then merged.

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/inputs.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kernels/cuda/kv/place.cuh"

namespace rigcast::engine::cuda {

/// (m, l, o) of some tokens and each head: scores s in powers of two (place.cuh), l = sum of
/// 2^(s - m), o = sum of 2^(s - m) * value. m need not be the largest score, but near it; it is
/// -infinity where a split has seen nothing, and o is then not written and not read. Scores in
/// powers of e become such ones by m * log2(e).
struct Partials {
  float* m = nullptr;  // [split][heads]
  float* l = nullptr;  // [split][heads]
  float* o = nullptr;  // [split][heads][head_dim]
};

/// One new token's attention in one layer: its heads are placed first, as place() does it. The
/// cache's blocks hold a multiple of 16 tokens and begin at multiples of 16 bytes; their types are
/// any of F16, Q8_0 and Q4_0.
struct DecodeAttention {
  Placement placement;  // of one token; heads: a multiple of the cache's KV heads
  int window = 0;       // the last tokens that are seen, this one counted; 0: all
  /// *position, the cache's list of blocks and the rows before the position were written before the
  /// last launch that waited for all work ahead of it (a graph's, or one of Start::kAfter): they
  /// are then read while kernels ahead run.
  bool settled = false;
  int first_token = 0;  // those before it are attended to elsewhere; a multiple of 16
  Start start = Start::kEarly;
};

/// The splits for contexts of up to this many tokens: enough to keep every multiprocessor busy,
/// and none without work. `halves`: keys and values are both F16.
int attention_splits(int tokens_upper_bound, int kv_heads, int multiprocessors, bool halves = true);

/// Puts the new token's keys and values into the cache at *position and attends to it and those
/// before it. Writes partials [0, splits). head_dim: a multiple of 8 up to 256. Throws CudaFailure.
void attend_partially(const Stream& stream, const DecodeAttention& attention, const Cache& cache,
                      int layer, int splits, const int* position, const Partials& partials);

/// out [heads][head_dim] = the mix of partials [0, count). heads * head_dim is a multiple of 32.
/// NaN where all partials are empty.
void merge_partials(const Stream& stream, const Partials& partials, int count, int heads,
                    int head_dim, const Outputs& out);

}  // namespace rigcast::engine::cuda
