#pragma once
// Device code: rows of the cache as F16, eight values at a time.

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "core/model/quant_format.hpp"

namespace rigcast::engine::cuda {

__device__ inline std::uint32_t scaled_pair(__half2 q, __half2 d) {
  const __half2 x = __hmul2(q, d);
  return *reinterpret_cast<const std::uint32_t*>(&x);
}

__device__ inline uint4 piece_of_q8_0(const std::byte* row, int piece) {
  const auto* block = reinterpret_cast<const std::uint16_t*>(row + piece / 4 * 34);
  const __half2 d = __half2half2(*reinterpret_cast<const __half*>(block));
  std::uint32_t out[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int two = block[1 + piece % 4 * 4 + i];
    out[i] = scaled_pair(
        __halves2half2(__int2half_rn(std::int8_t(two)), __int2half_rn(std::int8_t(two >> 8))), d);
  }
  return make_uint4(out[0], out[1], out[2], out[3]);
}

__device__ inline uint4 piece_of_q4_0(const std::byte* row, int piece) {
  const auto* block = reinterpret_cast<const std::uint16_t*>(row + piece / 4 * 18);
  const __half2 d = __half2half2(*reinterpret_cast<const __half*>(block));
  const int shift = piece % 4 / 2 * 4;
  std::uint32_t out[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int two = block[1 + piece % 2 * 4 + i] >> shift;
    out[i] = scaled_pair(
        __halves2half2(__int2half_rn((two & 15) - 8), __int2half_rn((two >> 8 & 15) - 8)), d);
  }
  return make_uint4(out[0], out[1], out[2], out[3]);
}

/// Eight neighbouring values of a row of the cache as F16, each the nearest to d * q.
__device__ inline uint4 piece_of_row(QuantFormat type, const std::byte* row, int piece) {
  if (type == QuantFormat::kQ8_0) return piece_of_q8_0(row, piece);
  if (type == QuantFormat::kQ4_0) return piece_of_q4_0(row, piece);
  return reinterpret_cast<const uint4*>(row)[piece];
}

}  // namespace rigcast::engine::cuda
