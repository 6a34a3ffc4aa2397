#pragma once
// Device code: a warp norms a row in shared memory, and quantizes one to the cache's type.

#include <cuda_fp16.h>

#include "engine/kernels/cuda/kv/new_tokens.cuh"

namespace rigcast::engine::cuda {

inline constexpr int kMaxHeadDim = 512;

__device__ inline float warp_sum(float v) {
  for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_xor_sync(~0u, v, lanes);
  return v;
}

// RMS norm of a head in shared memory, by one warp. No weights: each is 1.
__device__ inline void normalise(float* head, const float* weight, float eps, int dim, int lane) {
  float squares = 0;
  for (int i = lane; i < dim; i += 32) squares += head[i] * head[i];
  const float scale = 1.0f / sqrtf(warp_sum(squares) / float(dim) + eps);
  for (int i = lane; i < dim; i += 32) head[i] = head[i] * scale * (weight ? weight[i] : 1.0f);
  __syncwarp();
}

__device__ inline void put_fp16(const float* head, float scale, int dim, __half* out, int lane) {
  for (int i = 4 * lane; i < dim; i += 128) {
    const float4 x = *reinterpret_cast<const float4*>(head + i);
    const __half2 low = __floats2half2_rn(x.x * scale, x.y * scale);
    const __half2 high = __floats2half2_rn(x.z * scale, x.w * scale);
    *reinterpret_cast<uint2*>(out + i) = make_uint2(*reinterpret_cast<const std::uint32_t*>(&low),
                                                    *reinterpret_cast<const std::uint32_t*>(&high));
  }
}

// The value with the largest magnitude over the lanes; the first of equal ones.
__device__ inline float largest_of(float x) {
  float largest = fabsf(x);
  for (int lanes = 16; lanes > 0; lanes /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
  const unsigned where = __ballot_sync(~0u, fabsf(x) == largest);
  return __shfl_sync(~0u, x, max(0, __ffs(int(where)) - 1));
}

__device__ inline __half finite_half(float v) {
  return __float2half_rn(fminf(fmaxf(v, -65504.0f), 65504.0f));
}

// Quotients are double: in F32, rounding could create ties.
__device__ inline int nearest_level(float x, __half step, double low, double high) {
  const double d = double(__half2float(step));
  return d == 0 ? 0 : int(fmin(fmax(rint(double(x) / d), low), high));
}

__device__ inline void put_q8_0(const float* head, int dim, std::byte* out, int lane) {
  for (int i = 0; i < dim; i += 32, out += 34) {
    const float x = head[i + lane];
    const __half d = finite_half(__fdiv_rn(fabsf(largest_of(x)), 127.0f));
    if (lane == 0) *reinterpret_cast<__half*>(out) = d;
    out[2 + lane] = std::byte(nearest_level(x, d, -127, 127));
  }
}

__device__ inline void put_q4_0(const float* head, int dim, std::byte* out, int lane) {
  for (int i = 0; i < dim; i += 32, out += 18) {
    const float x = head[i + lane];
    const __half d = finite_half(largest_of(x) / -8.0f);
    if (lane == 0) *reinterpret_cast<__half*>(out) = d;
    const int level = nearest_level(x, d, -8, 7) + 8;
    const int upper = __shfl_down_sync(~0u, level, 16);
    if (lane < 16) out[2 + lane] = std::byte(level | upper << 4);
  }
}

/// Writes a head as a row of the cache.
__device__ inline void put_row(QuantFormat type, const float* head, int dim, std::byte* out,
                               int lane) {
  if (type == QuantFormat::kF16)
    put_fp16(head, 1.0f, dim, reinterpret_cast<__half*>(out), lane);
  else if (type == QuantFormat::kQ8_0)
    put_q8_0(head, dim, out, lane);
  else
    put_q4_0(head, dim, out, lane);
}

}  // namespace rigcast::engine::cuda
