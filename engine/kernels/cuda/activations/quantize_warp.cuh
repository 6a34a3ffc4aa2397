#pragma once
// Device code: quantization of 32 values by one warp.

#include "engine/kernels/cuda/activations/quantize_device.cuh"
#include "engine/kernels/cuda/weights/matrix.cuh"

namespace rigcast::engine::cuda {

/// Quantizes block `block` of 32 values, with one warp, a value a lane.
__device__ inline void quantize_32(float x, int block, int lane, const QuantizedActivations& out) {
  const QuantizationScale s = quantization_scale(max_over_lanes(fabsf(x), 32));
  const auto q = std::int8_t(quantized_byte(x, s.inverse));
  const int sum = sum_of(q, 16);
  out.q[block * 32 + lane] = q;
  if (lane == 0) out.scale[block] = s.scale;
  if (lane % 16 == 0) out.sum16[block * 2 + lane / 16] = s.scale * float(sum);
}

}  // namespace rigcast::engine::cuda
