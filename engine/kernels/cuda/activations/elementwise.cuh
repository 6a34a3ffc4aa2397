#pragma once
// Elementwise operations between the matrix products of a batch of tokens. Calls queue their work
// and do not wait. Sums are F32; results in F16 are clamped to +-65504. All functions throw
// CudaFailure. Rows may have any width and begin anywhere; values are moved 4 at a time where
// widths and strides are multiples of 4 and rows begin at multiples of 4 values.

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/value_type.cuh"
#include "engine/kernels/cuda/activations/gate_function.cuh"
#include "engine/kernels/cuda/activations/quantize_activations.cuh"

namespace rigcast::engine::cuda {

/// The shape of every operand: one row per token.
struct Batch {
  int tokens = 0;
  int width = 0;  // values of a row
};

/// x += add + bias, where each is given.
struct Addition {
  ConstRows add{};              // F32 or F16
  const float* bias = nullptr;  // [width], the same for every row
};

/// x: F32, [tokens][width] with a stride.
void add_rows(const Stream& stream, const Batch& batch, const Rows& x, const Addition& addition);

/// x += addition, in place; then out = the norm of x. x: F32; out: any type; the norm's weight and
/// bias: [width].
void rms_norm(const Stream& stream, const Batch& batch, const Rows& x, const Addition& addition,
              const Norm& norm, const Rows& out);

/// As rms_norm() without an addition, with results in F16 that are tiled for
/// tiled_tokens(batch.tokens) tokens (tile_order.hpp). width: a multiple of kTileColumns; rows of x
/// as for moves of four values.
void rms_norm_tiled(const Stream& stream, const Batch& batch, const ConstRows& x, const Norm& norm,
                    __half* out);

/// out = function(gate) * up. gate and up: both F16 or both F32; out: F16.
void gate_times(const Stream& stream, const Batch& batch, const ConstRows& gate,
                const ConstRows& up, const Rows& out, GateFunction function = GateFunction::kSilu);

/// x *= factor, for `count` values.
void scale(const Stream& stream, float* x, std::int64_t count, float factor);

/// hidden = scale * (hidden + factor * norm(branch))
void add_branch(const Stream& stream, const Batch& batch, const BranchSum& sum);

/// A head's logits: scaled, then bounded.
struct LogitRange {
  float factor = 1;
  float cap = 0;  // 0: none

  bool changes() const { return factor != 1 || cap > 0; }
};
/// logits = cap * tanh(factor * logits / cap), or factor * logits without a cap, for `count`
/// values.
void bound_logits(const Stream& stream, float* logits, std::int64_t count, const LogitRange& range);

/// to[i] = the half nearest to from[i].
void to_fp16(const Stream& stream, const float* from, std::int64_t count, __half* to);

/// *position = value. The value is a kernel argument, so no host memory has to outlive a copy.
void set_position(const Stream& stream, std::int32_t* position, std::int32_t value);

/// *position += tokens
void advance(const Stream& stream, std::int32_t* position, int tokens = 1);

}  // namespace rigcast::engine::cuda
