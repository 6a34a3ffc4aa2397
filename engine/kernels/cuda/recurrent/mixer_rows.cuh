#pragma once
// Rows of a step in recurrent layers: which of the states each has, and where results go.

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/kernels/cuda/activations/inputs.cuh"
#ifdef __CUDACC__
#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/quantize_warp.cuh"
#endif

namespace rigcast::engine::cuda {

/// Rows of a step, either apart, each the only new token of its sequence, or together, consecutive
/// tokens of one. Both arrays are on the GPU, and were written before the last launch that waited
/// for all previous work: kernels read them, and states, while earlier kernels still run.
struct MixerRows {
  int rows = 1;
  const std::int32_t* position = nullptr;  // of every row; of rows together: of the first
  /// Likewise: the number of the sequence's state. Negative: the row fills a step up, and has none.
  const std::int32_t* state = nullptr;
};

/// A layer's part of the states of all sequences. Behind the states of heads it has what was
/// convolved of the last `kernel` tokens, [position % kernel][channel]: a token then takes the
/// place of one that no token of its step needs, if rows are apart. At position 0 a state is
/// empty, whatever is there.
struct LayerStates {
  float* first = nullptr;   // aligned to 16 bytes
  std::int64_t stride = 0;  // floats of a sequence's state in all layers

#ifdef __CUDACC__
  __device__ __forceinline__ float* of(int state) const {
    return first + std::int64_t(state > 0 ? state : 0) * stride;
  }
#endif
};

/// Where a mixer's result goes, rows one after the other, in any of these forms. Of several rows:
/// not as integers.
struct MixerOutputs {
  QuantizedActivations quantized{};
  float* floats = nullptr;
  __half* halves = nullptr;
};

#ifdef __CUDACC__
__device__ __forceinline__ float silu_of(float x) { return x / (1.0f + __expf(-x)); }
__device__ __forceinline__ float softplus_of(float x) {
  return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

/// The sum over `lanes` neighbouring lanes, a power of two.
__device__ __forceinline__ float sum_over_lanes(float x, int lanes) {
  for (int d = lanes / 2; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  return x;
}

/// Writes column `column` of a row of `width` values; a warp has 32 neighbouring columns, from a
/// multiple of 32 on.
__device__ __forceinline__ void put(const MixerOutputs& out, std::int64_t row, int width,
                                    int column, float x) {
  constexpr float kMaxHalf = 65504.0f;  // comparisons leave NaN as it is
  const std::int64_t at = row * width + column;
  if (out.floats) out.floats[at] = x;
  if (out.halves)
    out.halves[at] = __float2half_rn(x > kMaxHalf ? kMaxHalf : x < -kMaxHalf ? -kMaxHalf : x);
  if (out.quantized.q) quantize_32(x, column / 32, int(threadIdx.x) % 32, out.quantized);
}
#endif

}  // namespace rigcast::engine::cuda
