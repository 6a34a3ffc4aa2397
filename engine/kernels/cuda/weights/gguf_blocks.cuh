#pragma once
// Device code: the fields of GGUF blocks, and of repacked weights.

#include <cuda_fp16.h>

#include <cstdint>

#include "core/model/quant_format.hpp"

namespace rigcast::engine::cuda {

/// The weights and bytes of a block as compile-time constants.
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

/// Formats whose codes index a table of 16 int8 values.
template <QuantFormat F>
inline constexpr bool kCodebookWeights =
    F == QuantFormat::kIQ4_NL || F == QuantFormat::kIQ4_XS || F == QuantFormat::kMXFP4;

/// Looks up 16-byte table entries, in the order of the codes' nibbles: low and high ones alternate.
__device__ inline uint2 look_up(const std::uint32_t (&table)[4], std::uint32_t codes) {
  // __byte_perm selects among 8 bytes by nibbles; bit 3 of a code chooses between two selections.
  const std::uint32_t entry = codes & 0x77777777;
  const std::uint32_t side = 0x32103210 | (codes & 0x88888888) >> 1;
  const auto four = [&](int shift) {
    const std::uint32_t low = __byte_perm(table[0], table[1], entry >> shift);
    const std::uint32_t high = __byte_perm(table[2], table[3], entry >> shift);
    return __byte_perm(low, high, side >> shift);
  };
  return {four(0), four(16)};
}

/// Four bytes for the low nibbles of codes and four for the high ones, in the order of look_up().
__device__ inline uint2 alternating(std::uint32_t low, std::uint32_t high) {
  return {__byte_perm(low, high, 0x5140), __byte_perm(low, high, 0x7362)};
}

/// The int8 values for the nibbles of `codes`, in the order of look_up().
template <QuantFormat F>
__device__ inline uint2 alternating_values(std::uint32_t codes) {
  if constexpr (F == QuantFormat::kMXFP4) {
    // Twice 0 .5 1 1.5 | 2 3 4 6 | and their negatives, by half of 2^(e - 127).
    constexpr std::uint32_t kTable[4] = {0x03020100, 0x0C080604, 0xFDFEFF00, 0xF4F8FAFC};
    return look_up(kTable, codes);
  } else {
    // -127 -104 -83 -65 | -49 -35 -22 -10 | 1 13 25 38 | 53 69 89 113
    constexpr std::uint32_t kTable[4] = {0xBFAD9881, 0xF6EADDCF, 0x26190D01, 0x71594535};
    return look_up(kTable, codes);
  }
}

/// x: the int8 values for the low nibbles of `codes`, y: for the high ones.
template <QuantFormat F>
__device__ inline uint2 codebook_values(std::uint32_t codes) {
  const uint2 v = alternating_values<F>(codes);
  return {__byte_perm(v.x, v.y, 0x6420), __byte_perm(v.x, v.y, 0x7531)};
}

/// Half of 2^(e - 127), which multiplies MXFP4's doubled values.
__device__ inline float mxfp4_scale(std::uint32_t e) {
  return __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1u) << 23);
}

/// The scale of unit `s` of an IQ4_XS block with the 8-byte head `head`: d, 8 * 2 high bits, 8 * 4
/// low bits.
__device__ inline float iq4_xs_scale(uint2 head, int s) {
  const int low = int(head.y >> (4 * s) & 15), high = int(head.x >> (16 + 2 * s) & 3);
  return half_bits(head.x & 0xFFFF) * float((low | high << 4) - 32);
}

/// The scales of both halves of unit `s` of a Q3_K block, without d: `low` has their low bits,
/// `high` the high bits of the block.
__device__ inline int2 q3_k_scales(std::uint32_t low, std::uint32_t high, int s) {
  const std::uint32_t bits = high >> (4 * s);
  return {int((low & 15) | (bits & 3) << 4) - 32, int((low >> 4 & 15) | (bits << 2 & 0x30)) - 32};
}

}  // namespace rigcast::engine::cuda
