#pragma once
// Device code: weights of the formats whose blocks stay whole in GPU memory.

#include <cstdint>

#include "engine/kernels/cuda/weights/whole_blocks.cuh"
#include "engine/kernels/ref/grids.hpp"

namespace rigcast::engine::cuda {

__device__ constexpr auto kIq2XxsPointsOf = ref::kIq2XxsGrid;
__device__ constexpr auto kIq2XsPointsOf = ref::kIq2XsGrid;
__device__ constexpr auto kIq2SPointsOf = ref::kIq2SGrid;
__device__ constexpr auto kIq3XxsPointsOf = ref::kIq3XxsGrid;
__device__ constexpr auto kIq3SPointsOf = ref::kIq3SGrid;
__device__ constexpr auto kIq1PointsOf = ref::kIq1Grid;

__device__ inline std::uint32_t byte_of(const std::uint32_t* body, int i) {
  return body[i / 4] >> (8 * (i % 4)) & 0xFF;
}
__device__ inline std::uint32_t half_of(const std::uint32_t* body, int i) {
  return body[i / 2] >> (16 * (i % 2)) & 0xFFFF;
}
__device__ inline std::uint32_t nibble_of(const std::uint32_t* body, int i) {
  return body[i / 8] >> (4 * (i % 8)) & 15;
}

__device__ inline uint2 halves_of(std::uint64_t point) {
  return {std::uint32_t(point), std::uint32_t(point >> 32)};
}
// Four values above 0, negative where the bit of `signs` is set.
__device__ inline std::uint32_t with_signs(std::uint32_t four, std::uint32_t signs) {
  const std::uint32_t ones = (signs & 15) * 0x00204081u & 0x01010101u;
  return (four ^ ones * 255u) + ones;
}
__device__ inline uint2 with_signs(uint2 eight, std::uint32_t signs) {
  return {with_signs(eight.x, signs), with_signs(eight.y, signs >> 4)};
}
// Seven signs, and the eighth that makes the number of minuses even.
__device__ inline std::uint32_t with_eighth(std::uint32_t seven) {
  return seven | (std::uint32_t(__popc(seven)) & 1) << 7;
}
// Four bytes less `kBy`, none of them above 127.
template <std::uint32_t kBy>
__device__ inline std::uint32_t lowered(std::uint32_t four) {
  return (four + (0x80 - kBy) * 0x01010101u) ^ 0x80808080u;
}
// A point of IQ1 in eighths, moved by one down or up.
__device__ inline uint2 moved_point(std::uint32_t index, bool down) {
  const uint2 eighths = halves_of(kIq1PointsOf.at[index]);
  const std::uint32_t up = down ? 0 : 0x02020202u;
  return {lowered<9>(eighths.x + up), lowered<9>(eighths.y + up)};
}

// Weights 4 i to 4 i + 3 of a TQ1_0 block: digit n of four bytes. A byte is a fraction, of which
// five base-3 digits are multiplied out; two bytes at a time, as 16 bits have room for a product.
__device__ inline std::uint32_t four_trits(const std::uint32_t* body, int i) {
  const int word = i < 40 ? i % 8 : i < 60 ? 8 + i % 4 : 12;
  const int n = i < 40 ? i / 8 : i < 60 ? (i - 40) / 4 : i - 60;
  const std::uint32_t power = n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
  const auto digits = [&](std::uint32_t two) {
    return ((two & 0x00FF00FF) * power & 0x00FF00FF) * 3 >> 8 & 0x00030003;
  };
  return lowered<1>(digits(body[word]) | digits(body[word] >> 8) << 8);
}

/// Weights 8 * part + i of unit `s` of a block, as int8 in the order of i: what scale_of_half() is
/// multiplied with.
template <QuantFormat F>
__device__ inline uint2 eight_of(const std::uint32_t* body, int s, int part) {
  using enum QuantFormat;
  if constexpr (F == kIQ2_XXS) {
    const std::uint32_t index = body[2 * s] >> (8 * part) & 0xFF;
    const std::uint32_t signs = with_eighth(body[2 * s + 1] >> (7 * part) & 127);
    return with_signs(halves_of(kIq2XxsPointsOf.at[index]), signs);
  } else if constexpr (F == kIQ2_XS) {
    const std::uint32_t code = half_of(body, 4 * s + part);
    return with_signs(halves_of(kIq2XsPointsOf.at[code & 511]), with_eighth(code >> 9));
  } else if constexpr (F == kIQ2_S) {
    const std::uint32_t high = byte_of(body, 64 + s) >> (2 * part) & 3;
    const std::uint32_t index = (body[s] >> (8 * part) & 0xFF) | high << 8;
    return with_signs(halves_of(kIq2SPointsOf.at[index]), body[8 + s] >> (8 * part));
  } else if constexpr (F == kIQ3_XXS) {
    const std::uint32_t two = half_of(body, 4 * s + part);
    const std::uint32_t signs = with_eighth(body[16 + s] >> (7 * part) & 127);
    return with_signs({kIq3XxsPointsOf.at[two & 0xFF], kIq3XxsPointsOf.at[two >> 8]}, signs);
  } else if constexpr (F == kIQ3_S) {
    const std::uint32_t two = half_of(body, 4 * s + part);
    const std::uint32_t high = byte_of(body, 64 + s) >> (2 * part);
    const std::uint32_t first = (two & 0xFF) | (high & 1) << 8;
    const std::uint32_t second = two >> 8 | (high >> 1 & 1) << 8;
    return with_signs({kIq3SPointsOf.at[first], kIq3SPointsOf.at[second]},
                      body[18 + s] >> (8 * part));
  } else if constexpr (F == kIQ1_S) {
    const std::uint32_t fields = half_of(body, 16 + s);
    const std::uint32_t low = body[s] >> (8 * part) & 0xFF;
    return moved_point(low | (fields >> (3 * part) & 7) << 8, fields >> 15);
  } else if constexpr (F == kIQ1_M) {
    const std::uint32_t fields = nibble_of(body + 8, 4 * s + part);
    return moved_point((body[s] >> (8 * part) & 0xFF) | (fields & 7) << 8, fields >> 3);
  } else if constexpr (F == kTQ1_0) {
    const int first = 8 * s + 2 * part;
    return {four_trits(body, first), four_trits(body, first + 1)};
  } else if constexpr (F == kTQ2_0) {
    const std::uint32_t* const words = body + 8 * (s / 4) + 2 * part;
    const int shift = 2 * (s % 4);
    return {lowered<1>(words[0] >> shift & 0x03030303), lowered<1>(words[1] >> shift & 0x03030303)};
  } else {
    static_assert(F == kNVFP4);
    const std::uint32_t* const words = body + 1 + 2 * (2 * s + part / 2);
    const uint2 a = codebook_values<kMXFP4>(words[0]), b = codebook_values<kMXFP4>(words[1]);
    return part % 2 == 0 ? uint2{a.x, b.x} : uint2{a.y, b.y};
  }
}

// Half of E4M3 without a sign: F16 whose exponent's highest bit is 0 has the same fields, and 1/256
// of the value. The pattern that stands for no number is 0.
__device__ inline float half_e4m3(std::uint32_t code) {
  return code == 127 ? 0.0f : half_bits((code & 127) << 7) * 128.0f;
}

/// The factor of a half of unit `s`, of which the block's scale is a factor too.
template <QuantFormat F>
__device__ inline float scale_of_half(const std::uint32_t* body, int s, int half) {
  using enum QuantFormat;
  const auto odd = [](std::uint32_t n) { return float(2 * n + 1); };
  if constexpr (F == kIQ2_XXS) return odd(body[2 * s + 1] >> 28) * 0.125f;
  if constexpr (F == kIQ2_XS) return odd(nibble_of(body + 16, 2 * s + half)) * 0.125f;
  if constexpr (F == kIQ2_S) return odd(nibble_of(body + 18, 2 * s + half)) * 0.125f;
  if constexpr (F == kIQ3_XXS) return odd(body[16 + s] >> 28) * 0.25f;
  if constexpr (F == kIQ3_S) return odd(nibble_of(body + 26, s));
  if constexpr (F == kIQ1_S) return odd(half_of(body, 16 + s) >> 12 & 7) * 0.125f;
  if constexpr (F == kIQ1_M) {
    const int i = 2 * s + half;
    return odd(half_of(body, 24 + i / 4) >> (3 * (i % 4)) & 7) * 0.125f;
  }
  if constexpr (F == kNVFP4) return half_e4m3(byte_of(body, 2 * s + half));
  return 1.0f;  // the ternary formats
}

/// The block's scale. `own` points to it where the format has one apart from the body.
template <QuantFormat F>
__device__ inline float block_scale(const std::uint32_t* body, const void* own) {
  if constexpr (BodyOf<F>::kHasScale) {
    return __half2float(*static_cast<const __half*>(own));
  } else if constexpr (F == QuantFormat::kIQ1_M) {
    // The highest four bits of each of four words.
    std::uint32_t bits = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) bits |= half_of(body, 24 + k) >> 12 << (4 * k);
    return half_bits(bits);
  } else {
    return 1.0f;
  }
}

}  // namespace rigcast::engine::cuda
