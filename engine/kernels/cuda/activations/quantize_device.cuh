#pragma once
// Device code: quantization, shared by all kernels that write quantized activations.

#include <cstdint>

namespace rigcast::engine::cuda {

/// The scale of 32 values whose largest magnitude is `largest`, and the inverse of the scale.
struct QuantizationScale {
  float scale = 0, inverse = 0;
};
__device__ inline QuantizationScale quantization_scale(float largest) {
  if (!(largest > 0) || isinf(largest)) return {};
  return {largest / 127.0f, 127.0f / largest};
}

/// The nearest integer, ties to even, in the low byte. Product and sum are rounded one after the
/// other, as on the CPU. NaN gives 0.
__device__ inline std::uint32_t quantized_byte(float x, float inverse) {
  const float v = __fmul_rn(x, inverse);
  return __float_as_uint(__fadd_rn(v == v ? v : 0.0f, 12582912.0f)) & 0xFF;
}

/// The largest magnitude over `lanes` neighbouring lanes, a power of two. NaN is ignored.
__device__ inline float max_over_lanes(float magnitude, int lanes) {
  for (int d = lanes / 2; d > 0; d /= 2)
    magnitude = fmaxf(magnitude, __shfl_xor_sync(~0u, magnitude, d));
  return magnitude;
}

__device__ inline int sum_of(int value, int lanes) {
  for (int d = lanes / 2; d > 0; d /= 2) value += __shfl_xor_sync(~0u, value, d);
  return value;
}

}  // namespace rigcast::engine::cuda
