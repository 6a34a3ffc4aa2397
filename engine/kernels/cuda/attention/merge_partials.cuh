#pragma once
// Partial results of attention over parts of a context, and their merge.

#include <cuda_fp16.h>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/inputs.cuh"
#include "engine/kernels/cuda/activations/tile_order.hpp"

namespace rigcast::engine::cuda {

/// Partial results (m, l, o) for some tokens and each head, where scores s are exponents of two
/// (rope_and_store.cuh): l = sum of 2^(s - m), o = sum of 2^(s - m) * value. m is near the largest
/// score. A split that has seen no token has m = -infinity, and merges below do not read its o.
/// For scores that are exponents of e, multiply m by log2(e).
struct Partials {
  float* m = nullptr;  // [split][heads]
  float* l = nullptr;  // [split][heads]
  float* o = nullptr;  // [split][heads][head_dim]
};

/// Sinks, one a head: scores (exponents of e) that the softmax counts and no value has. They join
/// where partials are merged into an output, once. null: none.
using Sinks = const float*;

#ifdef __CUDACC__
/// What a head's sink adds to its l, a sum of 2^(score - m).
__device__ __forceinline__ float sink_term(float sink, float m) {
  constexpr float kLog2E = 1.4426950408889634f;
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fmaf(sink, kLog2E, -m)));
  return power;
}
#endif

/// out [heads][head_dim] = the attention output, merged from partials [0, count). heads * head_dim
/// is a multiple of 32. NaN where all partials are empty and there are no sinks.
void merge_partials(const Stream& stream, const Partials& partials, int count, int heads,
                    int head_dim, const Outputs& out, Sinks sinks = nullptr);

/// Where rows of F16 are written: one after the other, or tiled for `tiled` tokens
/// (tile_order.hpp).
struct HalfRows {
  __half* to = nullptr;
  int first = 0;  // the first row that is written
  int tiled = 0;  // 0: one after the other
};

#ifdef __CUDACC__
__device__ inline std::int64_t index_in(const HalfRows& rows, std::int64_t row, std::int64_t width,
                                        std::int64_t column) {
  row += rows.first;
  return rows.tiled > 0 ? tiled_index(width, column, int(row), rows.tiled) : row * width + column;
}
#endif

/// out[rows][heads * head_dim] = the attention outputs, merged from partials
/// [row][split][heads] of splits [0, splits). heads * head_dim is a multiple of 32; where rows are
/// tiled, of kTileColumns.
void merge_rows(const Stream& stream, const Partials& partials, int rows, int splits, int heads,
                int head_dim, const HalfRows& out, Sinks sinks = nullptr);

}  // namespace rigcast::engine::cuda
