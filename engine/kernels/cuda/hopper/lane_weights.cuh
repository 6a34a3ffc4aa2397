#pragma once
// Device code: two rows of weights that a lane loads from memory straight into registers, and their
// conversion to F16 for tensor cores. Of 256 columns, lane 4 g + t has units t and 4 + t.

#include <cuda_fp16.h>

#include "engine/kernels/cuda/weights/gguf_blocks.cuh"
#include "engine/kernels/cuda/weights/soa_layout.cuh"

namespace rigcast::engine::cuda {

/// A row of a matrix; `units`: of 32 columns, in a row, at least eight.
struct RowAt {
  SoaView view;
  std::int64_t row;
  std::int64_t units;
};

/// Loads 16, 8, 4, 2 bytes or one of weights, which are read once, at this place in the code. What
/// lies beside 16 bytes is needed soon.
__device__ __forceinline__ void load_once(uint4& v, const void* from) {
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(from)));
}
__device__ __forceinline__ void load_once(uint2& v, const void* from) {
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "l"(__cvta_generic_to_global(from)));
}
__device__ __forceinline__ void load_once(std::uint32_t& v, const void* from) {
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];"
               : "=r"(v)
               : "l"(__cvta_generic_to_global(from)));
}
__device__ __forceinline__ void load_once(std::uint8_t& v, const void* from) {
  std::uint16_t wide;
  asm volatile("ld.global.nc.u8 %0, [%1];" : "=h"(wide) : "l"(__cvta_generic_to_global(from)));
  v = std::uint8_t(wide);
}
__device__ __forceinline__ void load_once(std::uint16_t& v, const void* from) {
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(__cvta_generic_to_global(from)));
}

__device__ __forceinline__ __half2 as_half2(std::uint32_t word) {
  return *reinterpret_cast<const __half2*>(&word);
}
__device__ __forceinline__ std::uint32_t as_word(__half2 pair) {
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

/// An F16 of 1024 plus a code is the code's bits below these. In a register that the compiler does
/// not see through, because an instruction has room for one constant.
__device__ __forceinline__ std::uint32_t opaque_1024() {
  std::uint32_t word;
  asm volatile("mov.b32 %0, 0x64006400;" : "=r"(word));
  return word;
}
template <std::uint32_t kMask>
__device__ __forceinline__ std::uint32_t masked_or(std::uint32_t word, std::uint32_t bits) {
  std::uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(out) : "r"(word), "n"(kMask), "r"(bits));
  return out;
}

/// The weights of a step of 16 columns for two rows: {first row, second, first, second}, the first
/// two words for the lane's columns below 8 of the step.
using StepWeights = std::uint32_t[4];

/// Scale and min of a unit; Q6_K: the scales of its halves.
struct UnitFactors {
  __half2 first, second;
};

// d and -dmin times the six bits of scale and of min in `bits`.
__device__ __forceinline__ UnitFactors six_bit_factors(std::uint32_t bits, __half2 d_and_min) {
  const std::uint32_t both = (bits & 63) | (bits << 10 & 0x003F0000) | 0x64006400;
  const __half2 scaled = __hmul2(__hsub2(as_half2(both), __float2half2_rn(1024)), d_and_min);
  return {__low2half2(scaled), __high2half2(scaled)};
}
// d times two int8 in `bits`.
__device__ __forceinline__ UnitFactors signed_factors(std::uint32_t bits, __half2 d) {
  const std::uint32_t both = __byte_perm(bits ^ 0x8080, 0x64646464, 0x4140);  // 1024 + 128 more
  const __half2 scaled = __hmul2(__hsub2(as_half2(both), __float2half2_rn(1152)), d);
  return {__low2half2(scaled), __high2half2(scaled)};
}

/// What a lane loads of each format.
template <QuantFormat F>
struct LaneFormat {
  using enum QuantFormat;
  static constexpr bool kSix = F == kQ6_K, kEight = F == kQ8_0;
  static constexpr bool kFive = F == kQ5_0 || F == kQ5_1 || F == kQ5_K;
  static constexpr bool kBlocks256 = F == kQ4_K || F == kQ5_K;  // a head for 256 weights
  static constexpr bool kPairs = F == kQ4_1 || F == kQ5_1;      // scale and min of a unit
  static constexpr bool kBytewise = F == kMXFP4;                // of scales
  static constexpr bool kTable = kCodebookWeights<F>;
  static constexpr bool kMins = kBlocks256 || kPairs;
  static constexpr bool kPartBlocks = !kBlocks256 && !kSix;  // rows may end within 256 columns
  static constexpr bool kNibbles = F == kQ4_K || F == kQ4_0 || F == kQ4_1;  // nothing but nibbles
  // The code that stands for 0. Codes of Q8_0, and values of a table, are stored plus 128.
  static constexpr int kZero = F == kQ4_0           ? 8
                               : F == kQ5_0         ? 16
                               : kSix               ? 32
                               : (kEight || kTable) ? 128
                                                    : 0;
  static constexpr int kCodeWords = kEight ? 2 : 1;  // of 16 bytes, of a unit
  static constexpr int kScaleBytes = kBytewise ? 1 : kPairs ? 4 : 2;
  /// Blocks of 256 columns that are loaded ahead: as many bytes of each format.
  static constexpr int kAhead = kEight ? 1 : 2;
};

/// Two rows of weights, of a lane's units in 256 columns.
template <QuantFormat F>
class LaneWeights : LaneFormat<F> {
  using Format = LaneFormat<F>;
  using Format::kBlocks256, Format::kBytewise, Format::kCodeWords, Format::kEight, Format::kFive,
      Format::kMins, Format::kNibbles, Format::kPairs, Format::kPartBlocks, Format::kScaleBytes,
      Format::kSix, Format::kTable, Format::kZero;

 public:
  using Format::kAhead;

  /// Where the lane is in its rows: at the first of its 256-column blocks.
  struct Source {
    const std::uint8_t* codes[2];
    const std::uint8_t* high[2];
    const std::uint8_t* scales[2];
    const std::uint8_t* d[2];
    int last[2];  // the block with the row's last unit t, and 4 + t

    __device__ Source(const RowAt& a, const RowAt& b, int block, int t) {
      place(0, a, block, t);
      place(1, b, block, t);
      if constexpr (kPartBlocks)
        for (int u = 0; u < 2; ++u) last[u] = (int(a.units) - 1 - 4 * u - t) / 8 - block;
    }

    /// The block from which unit `u` is read: one before the last where the row ends before that.
    __device__ __forceinline__ int block_of(int block, int u) const {
      return kPartBlocks ? min(block, last[u]) : block;
    }

   private:
    __device__ void place(int i, const RowAt& r, int block, int t) {
      const std::int64_t unit = std::int64_t(block) * 8 + t, blocks = r.units / 8;
      const std::int64_t four = r.row / 4, in_four = r.row % 4;
      const std::int64_t by_four = (four * r.units + unit) * 4 + in_four;
      codes[i] = r.view.codes + (r.row * r.units + unit) * (16 * kCodeWords);
      if constexpr (kFive) high[i] = r.view.high + by_four * 4;
      if constexpr (kSix) {
        high[i] = r.view.high + (r.row * r.units + unit) * 8;
        scales[i] = r.view.fields + by_four * 2;
        d[i] = r.view.scales + ((four * blocks + block) * 4 + in_four) * 2;
      } else if constexpr (kBlocks256) {
        scales[i] = r.view.fields + (r.row * blocks + block) * 16;
      } else {
        scales[i] = r.view.scales + by_four * kScaleBytes;
      }
    }
  };

  /// Begins the loads of the block that is `block` blocks after the first, in three parts, so that
  /// registers are free for the next block as soon as this one's have been converted.
  __device__ __forceinline__ void load_scales(const Source& from, int block) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (kSix) {
        load_once(scales_[r].of_unit[0], from.scales[r] + block * 64);
        load_once(scales_[r].of_unit[1], from.scales[r] + block * 64 + 32);
        load_once(scales_[r].d, from.d[r] + block * 8);
      } else if constexpr (kBlocks256) {
        load_once(scales_[r], from.scales[r] + block * 16);
      } else {
#pragma unroll
        for (int u = 0; u < 2; ++u)
          load_once(scales_[r].of_unit[u],
                    from.scales[r] + (from.block_of(block, u) * 32 + u * 16) * kScaleBytes);
      }
    }
  }
  __device__ __forceinline__ void load_unit(const Source& from, int block, int u) {
    block = from.block_of(block, u);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int i = 0; i < kCodeWords; ++i)
        load_once(codes_[u][r][i], from.codes[r] + (block * 128 + u * 64) * kCodeWords + i * 16);
      if constexpr (kFive) load_once(high_[u][r], from.high[r] + block * 128 + u * 64);
      if constexpr (kSix) load_once(high_[u][r], from.high[r] + block * 64 + u * 32);
    }
  }

  /// The factors of both units and rows.
  __device__ __forceinline__ void factors(int t, UnitFactors (&out)[2][2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (kBlocks256) {
        // The 12 bits of unit i are at bit 12 i of the block's last three words.
        const uint4 head = scales_[r];
        const __half2 d = __hmul2(as_half2(head.x), __floats2half2_rn(1, -1));
        const std::uint32_t first = t == 3 ? head.z : head.y, last = t >= 2 ? head.w : head.z;
        out[0][r] = six_bit_factors(__funnelshift_r(first, head.z, 12 * t), d);
        out[1][r] = six_bit_factors(__funnelshift_r(last, head.w, 48 + 12 * t), d);
      } else {
#pragma unroll
        for (int u = 0; u < 2; ++u) out[u][r] = factors_of(scales_[r], u);
      }
    }
  }

  /// Converts word `word` of both rows of unit `u`: steps 2 * word and 2 * word + 1 of the unit.
  __device__ __forceinline__ void convert(int u, int word, const UnitFactors (&factors)[2],
                                          std::uint32_t bits_1024, StepWeights (&out)[2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      std::uint32_t pair[2][2];  // [half of the unit][even or odd bytes]
      if constexpr (kNibbles)
        convert_nibbles(word_of(codes_[u][r][0], word), factors[r], bits_1024, pair);
      else
        convert_bytes(codes_of(u, r, word), factors[r], pair);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        out[half][r] = pair[half][0];
        out[half][2 + r] = pair[half][1];
      }
    }
  }

 private:
  struct Nothing {};
  using High = std::conditional_t<kSix, uint2, std::conditional_t<kFive, std::uint32_t, Nothing>>;
  struct SixScales {
    std::uint16_t of_unit[2], d;  // of both units; of the block
  };
  struct UnitScales {
    std::conditional_t<kPairs, std::uint32_t,
                       std::conditional_t<kBytewise, std::uint8_t, std::uint16_t>>
        of_unit[2];
  };
  using Scales =
      std::conditional_t<kSix, SixScales, std::conditional_t<kBlocks256, uint4, UnitScales>>;

  __device__ static __forceinline__ std::uint32_t word_of(const uint4& v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
  }

  __device__ static __forceinline__ UnitFactors factors_of(const Scales& s, int u) {
    if constexpr (kSix) {
      return signed_factors(s.of_unit[u], __half2half2(__ushort_as_half(s.d)));
    } else if constexpr (kPairs) {
      return {__low2half2(as_half2(s.of_unit[u])), __high2half2(as_half2(s.of_unit[u]))};
    } else if constexpr (kBytewise) {
      // F16 scales end at 2^15; below 2^-24 all weights of the unit become 0.
      return {__float2half2_rn(fminf(mxfp4_scale(s.of_unit[u]), 32768.0f)), {}};
    } else if constexpr (!kBlocks256) {
      return {__half2half2(__ushort_as_half(s.of_unit[u])), {}};
    } else {
      return {};
    }
  }

  __device__ static __forceinline__ void convert_nibbles(std::uint32_t w, const UnitFactors& by,
                                                         std::uint32_t bits_1024,
                                                         std::uint32_t (&pair)[2][2]) {
    const __half2 offset = __float2half2_rn(1024.0f + kZero);
    // A high nibble counts 16 times: of 1024 + 16 c, the sixteenth less 64 is c.
    const __half2 sixteenth = __float2half2_rn(0.0625f),
                  offset_16 = __float2half2_rn(-64.0f - kZero);
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const std::uint32_t v = odd ? w >> 8 : w;
      const __half2 low = __hsub2(as_half2(masked_or<0x000F000F>(v, bits_1024)), offset);
      const __half2 up =
          __hfma2(as_half2(masked_or<0x00F000F0>(v, bits_1024)), sixteenth, offset_16);
      pair[0][odd] = as_word(kMins ? __hfma2(low, by.first, by.second) : __hmul2(low, by.first));
      pair[1][odd] = as_word(kMins ? __hfma2(up, by.first, by.second) : __hmul2(up, by.first));
    }
  }

  // The bits above the nibbles of word `word` of both halves, at bit 4 of each byte.
  __device__ static __forceinline__ uint2 bits_above(const High& bits, int word) {
    if constexpr (kSix)
      return {(bits.x >> 2 * word & 0x03030303) << 4, (bits.y >> 2 * word & 0x03030303) << 4};
    else if constexpr (kFive)
      return {bits << (4 - word) & 0x10101010, bits >> word & 0x10101010};
    else
      return {};
  }

  // Four codes of each half.
  __device__ __forceinline__ uint2 codes_of(int u, int r, int word) const {
    const std::uint32_t w = word_of(codes_[u][r][0], word);
    if constexpr (kEight) {
      return {w ^ 0x80808080, word_of(codes_[u][r][1], word) ^ 0x80808080};
    } else if constexpr (kTable) {
      const uint2 values = codebook_values<F>(w);
      return {values.x ^ 0x80808080, values.y ^ 0x80808080};
    } else {
      const uint2 above = bits_above(high_[u][r], word);
      return {masked_or<0x0F0F0F0F>(w, above.x), masked_or<0x0F0F0F0F>(w >> 4, above.y)};
    }
  }

  __device__ static __forceinline__ void convert_bytes(uint2 codes, const UnitFactors& by,
                                                       std::uint32_t (&pair)[2][2]) {
    const __half2 zero = __float2half2_rn(1024.0f + kZero);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const std::uint32_t both =
            __byte_perm(half ? codes.y : codes.x, 0x64646464, odd ? 0x4341 : 0x4240);
        const __half2 value = __hsub2(as_half2(both), zero);
        pair[half][odd] = as_word(kMins ? __hfma2(value, by.first, by.second)
                                        : __hmul2(value, kSix && half ? by.second : by.first));
      }
  }

  uint4 codes_[2][2][kCodeWords];  // [unit t or 4 + t][row]
  High high_[2][2];
  Scales scales_[2];  // [row]
};

}  // namespace rigcast::engine::cuda
