#pragma once
// Device code: two rows of weights that a lane loads from memory straight into registers, and their
// conversion to F16 for tensor cores. Of 256 columns, lane 4 g + t has units t and 4 + t.

#include <cuda_fp16.h>

#include "engine/kernels/cuda/weights/gguf_blocks.cuh"
#include "engine/kernels/cuda/weights/soa_layout.cuh"

namespace rigcast::engine::cuda {

/// A row of a matrix; `units`: of 32 columns, in a row.
struct RowAt {
  SoaView view;
  std::int64_t row;
  std::int64_t units;
};

/// Loads 16, 8, 4 or 2 bytes of weights, which are read once, at this place in the code.
__device__ __forceinline__ void load_once(uint4& v, const void* from) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
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

/// Two rows of Q4_K, Q5_K or Q6_K.
template <QuantFormat F>
struct LaneWeights {
  static constexpr bool kFive = F == QuantFormat::kQ5_K, kSix = F == QuantFormat::kQ6_K;
  static_assert(F == QuantFormat::kQ4_K || kFive || kSix);
  struct Nothing {};
  using High = std::conditional_t<kSix, uint2, std::conditional_t<kFive, std::uint32_t, Nothing>>;
  struct SixScales {
    std::uint16_t pair[2], d;  // of both units; of the block
  };
  using Scales = std::conditional_t<kSix, SixScales, uint4>;

  /// Where the lane is in its rows: at the first of its 256-column blocks.
  struct Source {
    const std::uint8_t* codes[2];
    const std::uint8_t* high[2];
    const std::uint8_t* scales[2];
    const std::uint8_t* d[2];

    __device__ Source(const RowAt& a, const RowAt& b, int block, int t) {
      place(0, a, block, t);
      place(1, b, block, t);
    }

   private:
    __device__ void place(int i, const RowAt& r, int block, int t) {
      const std::int64_t unit = std::int64_t(block) * 8 + t, blocks = r.units / 8;
      const std::int64_t four = r.row / 4, in_four = r.row % 4;
      codes[i] = r.view.codes + (r.row * r.units + unit) * 16;
      if constexpr (kFive) high[i] = r.view.high + ((four * r.units + unit) * 4 + in_four) * 4;
      if constexpr (kSix) {
        high[i] = r.view.high + (r.row * r.units + unit) * 8;
        scales[i] = r.view.fields + ((four * r.units + unit) * 4 + in_four) * 2;
        d[i] = r.view.scales + ((four * blocks + block) * 4 + in_four) * 2;
      } else {
        scales[i] = r.view.fields + (r.row * blocks + block) * 16;
      }
    }
  };

  uint4 codes[2][2];  // [unit t or 4 + t][row]
  High high[2][2];
  Scales scales[2];  // [row]

  /// Begins the loads of the block that is `block` blocks after the first, in three parts, so that
  /// registers are free for the next block as soon as this one's have been converted.
  __device__ __forceinline__ void load_scales(const Source& from, int block) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (kSix) {
        load_once(scales[r].pair[0], from.scales[r] + block * 64);
        load_once(scales[r].pair[1], from.scales[r] + block * 64 + 32);
        load_once(scales[r].d, from.d[r] + block * 8);
      } else {
        load_once(scales[r], from.scales[r] + block * 16);
      }
    }
  }
  __device__ __forceinline__ void load_unit(const Source& from, int block, int u) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      load_once(codes[u][r], from.codes[r] + block * 128 + u * 64);
      if constexpr (kFive) load_once(high[u][r], from.high[r] + block * 128 + u * 64);
      if constexpr (kSix) load_once(high[u][r], from.high[r] + block * 64 + u * 32);
    }
  }

  /// The factors of both units and rows.
  __device__ __forceinline__ void factors(int t, UnitFactors (&out)[2][2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (kSix) {
        const __half2 d = __half2half2(__ushort_as_half(scales[r].d));
#pragma unroll
        for (int u = 0; u < 2; ++u) out[u][r] = signed_factors(scales[r].pair[u], d);
      } else {
        // The 12 bits of unit i are at bit 12 i of the block's last three words.
        const uint4 head = scales[r];
        const __half2 d = __hmul2(as_half2(head.x), __floats2half2_rn(1, -1));
        const std::uint32_t first = t == 3 ? head.z : head.y, last = t >= 2 ? head.w : head.z;
        out[0][r] = six_bit_factors(__funnelshift_r(first, head.z, 12 * t), d);
        out[1][r] = six_bit_factors(__funnelshift_r(last, head.w, 48 + 12 * t), d);
      }
    }
  }

  /// Converts word `word` of both rows of unit `u`: steps 2 * word and 2 * word + 1 of the unit.
  __device__ __forceinline__ void convert(int u, int word, const UnitFactors (&factors)[2],
                                          std::uint32_t bits_1024, StepWeights (&out)[2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      std::uint32_t pair[2][2];  // [half of the unit][even or odd bytes]
      const uint4& c = codes[u][r];
      const std::uint32_t w = word == 0 ? c.x : word == 1 ? c.y : word == 2 ? c.z : c.w;
      if constexpr (kFive || kSix)
        convert_bytes(w, high[u][r], word, factors[r], pair);
      else
        convert_nibbles(w, factors[r], bits_1024, pair);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        out[half][r] = pair[half][0];
        out[half][2 + r] = pair[half][1];
      }
    }
  }

 private:
  __device__ static __forceinline__ UnitFactors signed_factors(std::uint32_t bits, __half2 d) {
    const std::uint32_t both = __byte_perm(bits ^ 0x8080, 0x64646464, 0x4140);  // 1024 + 128 more
    const __half2 scaled = __hmul2(__hsub2(as_half2(both), __float2half2_rn(1152)), d);
    return {__low2half2(scaled), __high2half2(scaled)};
  }

  __device__ static __forceinline__ void convert_nibbles(std::uint32_t w, const UnitFactors& by,
                                                         std::uint32_t bits_1024,
                                                         std::uint32_t (&pair)[2][2]) {
    const __half2 offset = __float2half2_rn(1024);
    // A high nibble counts 16 times: 1024 + 16 c, of which the sixteenth less 64 is c.
    const __half2 sixteenth = __float2half2_rn(0.0625f), offset_16 = __float2half2_rn(-64);
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const std::uint32_t v = odd ? w >> 8 : w;
      const __half2 low = __hsub2(as_half2(masked_or<0x000F000F>(v, bits_1024)), offset);
      const __half2 up =
          __hfma2(as_half2(masked_or<0x00F000F0>(v, bits_1024)), sixteenth, offset_16);
      pair[0][odd] = as_word(__hfma2(low, by.first, by.second));
      pair[1][odd] = as_word(__hfma2(up, by.first, by.second));
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

  __device__ static __forceinline__ void convert_bytes(std::uint32_t w, const High& bits, int word,
                                                       const UnitFactors& by,
                                                       std::uint32_t (&pair)[2][2]) {
    const uint2 above = bits_above(bits, word);
    const std::uint32_t code[2] = {masked_or<0x0F0F0F0F>(w, above.x),
                                   masked_or<0x0F0F0F0F>(w >> 4, above.y)};
    const __half2 zero = __float2half2_rn(kSix ? 1024.0f + 32 : 1024.0f);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const std::uint32_t both = __byte_perm(code[half], 0x64646464, odd ? 0x4341 : 0x4240);
        const __half2 value = __hsub2(as_half2(both), zero);
        pair[half][odd] = as_word(kSix ? __hmul2(value, half ? by.second : by.first)
                                       : __hfma2(value, by.first, by.second));
      }
  }
};

}  // namespace rigcast::engine::cuda
