#pragma once
// Device code that reads blocks as they are in a file, a byte at a time.

#include <cuda_fp16.h>

#include <cstdint>

#include "core/quant_format.hpp"

namespace rigcast::engine::cuda {

/// A block's weights and bytes where kernels need them as constants.
template <QuantFormat F>
struct BlockOf {
  static constexpr int kWeights = int(kQuantFormats[std::size_t(F)].block_elements);
  static constexpr int kBytes = int(kQuantFormats[std::size_t(F)].block_bytes);
};

__device__ inline std::uint32_t u16_at(const std::uint8_t* b) {
  return std::uint32_t(b[0]) | std::uint32_t(b[1]) << 8;
}
__device__ inline std::uint32_t u32_at(const std::uint8_t* b) {
  return u16_at(b) | u16_at(b + 2) << 16;
}
__device__ inline float half_bits(std::uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

/// Byte i of the result is entry (byte i of `codes`, 0 to 15) of a table of 16 bytes.
__device__ inline std::uint32_t look_up(const std::uint32_t (&table)[4], std::uint32_t codes) {
  // __byte_perm picks among 8 bytes by nibbles; bit 3 of a code chooses between two picks.
  const std::uint32_t c =
      (codes & 0xF) | (codes >> 4 & 0xF0) | (codes >> 8 & 0xF00) | (codes >> 12 & 0xF000);
  const std::uint32_t low = __byte_perm(table[0], table[1], c & 0x7777);
  const std::uint32_t high = __byte_perm(table[2], table[3], c & 0x7777);
  return __byte_perm(low, high, 0x3210 | (c & 0x8888) >> 1);
}

/// 32 weights as w = scale * q - min; scales and mins of two halves.
struct Unit {
  std::uint32_t q[8];  // four int8 each
  float scale[2];
  float min[2];
};

__device__ inline std::uint32_t four_nibbles(const std::uint8_t* codes, int shift) {
  return u32_at(codes) >> shift & 0x0F0F0F0F;
}

// Two bits each of the 32 weights of unit s among 256.
__device__ inline std::uint32_t four_two_bits(const std::uint8_t* codes, int s, int k) {
  return u32_at(codes + 32 * (s / 4) + 4 * k) >> (2 * (s % 4)) & 0x03030303;
}

__device__ inline Unit q2_k_unit(const std::uint8_t* b, int s) {
  Unit u;
  const float d = half_bits(u16_at(b + 80));
  const float dmin = half_bits(u16_at(b + 82));
  for (int half = 0; half < 2; ++half) {
    const std::uint8_t field = b[2 * s + half];
    u.scale[half] = d * float(field & 15);
    u.min[half] = dmin * float(field >> 4);
  }
  for (int k = 0; k < 8; ++k) u.q[k] = four_two_bits(b + 16, s, k);
  return u;
}

__device__ inline Unit q3_k_unit(const std::uint8_t* b, int s) {
  Unit u{};
  const float d = half_bits(u16_at(b + 108));
  const std::uint8_t* scales = b + 96;
  for (int half = 0; half < 2; ++half) {
    const int i = 2 * s + half;
    const int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
    const int high = scales[8 + i % 4] >> (2 * (i / 4)) & 3;
    u.scale[half] = d * float((low | high << 4) - 32);
  }
  for (int k = 0; k < 8; ++k) {
    const std::uint32_t high = u32_at(b + 4 * k) >> s & 0x01010101;
    u.q[k] = __vsub4(four_two_bits(b + 32, s, k) | high << 2, 0x04040404);
  }
  return u;
}

__device__ inline void table_codes(const std::uint8_t* codes, const std::uint32_t (&table)[4],
                                   Unit& u) {
  for (int k = 0; k < 8; ++k)
    u.q[k] = look_up(table, four_nibbles(codes + 4 * (k % 4), k < 4 ? 0 : 4));
}

__device__ inline void non_linear_codes(const std::uint8_t* codes, Unit& u) {
  // -127 -104 -83 -65 | -49 -35 -22 -10 | 1 13 25 38 | 53 69 89 113
  constexpr std::uint32_t kTable[4] = {0xBFAD9881, 0xF6EADDCF, 0x26190D01, 0x71594535};
  table_codes(codes, kTable, u);
}

__device__ inline Unit iq4_nl_unit(const std::uint8_t* b) {
  Unit u{};
  u.scale[0] = u.scale[1] = half_bits(u16_at(b));
  non_linear_codes(b + 2, u);
  return u;
}

__device__ inline Unit iq4_xs_unit(const std::uint8_t* b, int s) {
  Unit u{};
  const int low = b[4 + s / 2] >> (4 * (s % 2)) & 15;
  const int high = int(u16_at(b + 2) >> (2 * s) & 3);
  u.scale[0] = u.scale[1] = half_bits(u16_at(b)) * float((low | high << 4) - 32);
  non_linear_codes(b + 8 + 16 * s, u);
  return u;
}

__device__ inline Unit mxfp4_unit(const std::uint8_t* b) {
  // Twice 0 .5 1 1.5 | 2 3 4 6 | and their negatives, by half of 2^(e - 127).
  constexpr std::uint32_t kTable[4] = {0x03020100, 0x0C080604, 0xFDFEFF00, 0xF4F8FAFC};
  Unit u{};
  const std::uint32_t e = b[0];
  u.scale[0] = u.scale[1] = __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1u) << 23);
  table_codes(b + 1, kTable, u);
  return u;
}

/// Unit `unit` of a row of blocks that starts at `row`.
template <QuantFormat F>
__device__ inline Unit native_unit(const std::uint8_t* row, int unit) {
  constexpr int kUnits = BlockOf<F>::kWeights / 32;
  const std::uint8_t* block = row + std::size_t(unit / kUnits) * BlockOf<F>::kBytes;
  if constexpr (F == QuantFormat::kQ2_K) return q2_k_unit(block, unit % kUnits);
  if constexpr (F == QuantFormat::kQ3_K) return q3_k_unit(block, unit % kUnits);
  if constexpr (F == QuantFormat::kIQ4_NL) return iq4_nl_unit(block);
  if constexpr (F == QuantFormat::kIQ4_XS) return iq4_xs_unit(block, unit % kUnits);
  if constexpr (F == QuantFormat::kMXFP4) return mxfp4_unit(block);
}

}  // namespace rigcast::engine::cuda
