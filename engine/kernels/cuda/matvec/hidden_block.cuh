#pragma once
// Device code: a thread block computes 32 neighbouring values of an FFN's hidden activations, four
// in each of its warps, and quantizes them.

#include <cstdint>

#include "engine/kernels/cuda/activations/inputs.cuh"
#include "engine/kernels/cuda/activations/quantize_device.cuh"

namespace rigcast::engine::cuda {

inline constexpr int kHiddenWarps = 8;
inline constexpr int kHiddenRows = 4;  // of a warp
inline constexpr int kHiddenRowsOfBlock = kHiddenWarps * kHiddenRows;
static_assert(kHiddenRowsOfBlock == 32, "a block's results share a scale");

/// The index within the block of the first of a warp's rows.
__device__ __forceinline__ int first_hidden_in_block() {
  return int(threadIdx.x / 32) * kHiddenRows;
}

/// The index within the matrix, of whose rows the first block has those from `first` on; a warp
/// past the last row repeats the last rows.
__device__ __forceinline__ std::int64_t first_hidden_row(std::int64_t rows,
                                                         std::int64_t first = 0) {
  const std::int64_t row =
      first + std::int64_t(blockIdx.x) * kHiddenRowsOfBlock + first_hidden_in_block();
  return row < rows ? row : (rows - 1) / kHiddenRows * kHiddenRows;
}

/// Quantizes the block's 32 values, one in each lane of the first warp, which alone calls it.
/// blockIdx.y: whose of several rows of hidden activations they are.
__device__ inline void quantize_hidden(float value, const QuantizedActivations& out,
                                       std::int64_t rows) {
  const int lane = threadIdx.x;
  const std::int64_t at = blockIdx.y * rows + std::int64_t(blockIdx.x) * kHiddenRowsOfBlock;
  const QuantizationScale s = quantization_scale(max_over_lanes(fabsf(value), 32));
  const auto q = std::int8_t(quantized_byte(value, s.inverse));
  const int sum = sum_of(int(q), 16);
  out.q[at + lane] = q;
  if (lane == 0) out.scale[at / 32] = s.scale;
  if (lane % 16 == 0) out.sum16[at / 16 + lane / 16] = s.scale * float(sum);
}

}  // namespace rigcast::engine::cuda
