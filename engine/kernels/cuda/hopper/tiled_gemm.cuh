#pragma once
// Products of quantized weights with up to 1,024 tokens on Hopper's tensor cores. Weights go from
// memory straight into registers, where they become F16; activations are F16 in the order of
// tile_order.hpp; sums are F32, in a fixed order. Calls queue their work; launches are kEarly,
// where nothing else is said, and read weights before their inputs are ready. All functions throw
// CudaFailure, and std::invalid_argument where formats or shapes do not fit.

#include <cuda_fp16.h>

#include <span>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/tile_order.hpp"
#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"

namespace rigcast::engine::cuda {

/// True if the current GPU runs these kernels: compute capability 9.0, with code for it.
bool has_tiled_gemm();

/// True for formats whose units of 32 weights lie in 16 or 32 bytes.
constexpr bool supports_tiled_gemm(QuantFormat format) {
  using enum QuantFormat;
  switch (format) {
    case kQ4_0:
    case kQ4_1:
    case kQ5_0:
    case kQ5_1:
    case kQ8_0:
    case kQ4_K:
    case kQ5_K:
    case kQ6_K:
    case kIQ4_NL:
    case kMXFP4: return true;
    default: return false;
  }
}

/// True if tiled activations may be multiplied by the matrix: its rows may end within a tile of
/// columns, but not within the first.
bool takes_tiled_columns(const DeviceMatrix& w);

/// Tiled activations of 1 to kMaxTiledTokens tokens. Room for padded_tokens(tokens) of them,
/// aligned to 128 bytes; what stands there for tokens that do not exist changes no result of
/// others.
struct TiledBatch {
  const __half* x = nullptr;
  int tokens = 0;
};

/// Up to kMaxJobs products with the same activations: out = w x + bias, as small_batch_gemm(), for
/// takes_tiled_columns(); activations are whole tiles. One launch, or one for each format. `start`:
/// of these.
void tiled_gemm(std::span<const SmallBatchJob> jobs, const TiledBatch& x,
                const SmallBatchRows& rows, const Stream& stream, Start start = Start::kEarly);

/// out = function(gate x) * (up x), clamped to +-65504, tiled as x, with zeros up to
/// tiled_columns(rows). Gate and up: alike, of one format.
void tiled_gate_up(const DeviceMatrix& gate, const DeviceMatrix& up, const TiledBatch& x,
                   __half* out, const Stream& stream, GateFunction function = GateFunction::kSilu);

}  // namespace rigcast::engine::cuda
