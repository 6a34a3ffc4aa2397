#pragma once
// Device code: the dot product of one lane, for formats with 256 weights per block; see
// lane_dot.cuh.

#include <cuda_fp16.h>

#include <type_traits>

#include "engine/kernels/cuda/matvec/lane_rows.cuh"
#include "engine/kernels/cuda/weights/gguf_blocks.cuh"

namespace rigcast::engine::cuda {

/// Q4_K and Q5_K: one unit per lane, 8 lanes per block.
template <QuantFormat F, int kRows>
struct KDot {
  static constexpr int kColumns = 32;
  static constexpr bool kFive = F == QuantFormat::kQ5_K;
  using X = Quantized32;

  struct Stage {
    uint4 codes[kRows][32];
    uint4 heads[kRows][4];
    Pack<std::uint32_t, kRows> high[kFive ? 32 : 1];
  };

  // Heads are 16 bytes for 8 lanes: lane i copies that of row i / 4 and block i % 4 of the step.
  struct Source {
    RowsCursor<kRows> codes;
    const std::uint8_t* high;
    const std::uint8_t* heads;
    int heads_left;  // 0 or less: the lane has no more to copy
    __device__ Source(const RowGroup& g, int unit)
        : codes(g, g.view.codes, g.units() * 16, unit * 16),
          high(by_four(g, g.view.high, g.units(), unit, 4)) {
      const int lane = unit % 32, block = unit / 32 * 4 + lane % 4, blocks = g.columns / 256;
      heads = g.view.fields + (g.row_at(lane / 4) * blocks + block) * 16;
      heads_left = lane < 4 * kRows ? blocks - block : 0;
    }
    __device__ __forceinline__ void fetch(Stage& s, int lane) const {
#pragma unroll
      for (int r = 0; r < kRows; ++r) copy_async<16>(&s.codes[r][lane], codes.at[r]);
      if constexpr (kFive) copy_pack_async(s.high[lane], high);
    }
    // Called by all lanes, including those past the last column.
    __device__ __forceinline__ void fetch_heads(Stage& s, int lane) const {
      if (heads_left > 0) copy_async<16>(&s.heads[lane / 4][lane % 4], heads);
    }
    __device__ __forceinline__ void advance() {
      codes.advance(32 * 16);
      high += 32 * 16, heads += 4 * 16, heads_left -= 4;
    }
  };

  __device__ static void add(const Stage& s, const RowGroup&, int, int lane, const X& x,
                             float (&sum)[kRows]) {
    const int unit = lane % 8;
    const float x_sum = x.sums.x + x.sums.y;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      HalfDots d;
      if constexpr (kFive)
        d = dot5(s.codes[r][lane], s.high[lane].row[r], x);
      else
        d = dot4(s.codes[r][lane], x);
      const uint4 head = s.heads[r][lane / 8];
      const std::uint32_t low = unit < 3 ? head.y : unit < 6 ? head.z : head.w;
      const std::uint32_t f = __funnelshift_r(low, unit < 3 ? head.z : head.w, 12 * unit);
      const float dot = float(f & 63) * (x.scale * float(d.low + d.high));
      const float min = float(f >> 6 & 63) * x_sum;
      sum[r] = fmaf(half_bits(head.x & 0xFFFF), dot, sum[r]);
      sum[r] = fmaf(-half_bits(head.x >> 16), min, sum[r]);
    }
  }
};

/// Q6_K: one unit per lane, 8 lanes per block.
template <int kRows>
struct SixDot {
  static constexpr int kColumns = 32;
  using X = Quantized32;

  struct Stage {
    uint4 codes[kRows][32];
    uint2 high[kRows][32];
    Pack<std::uint16_t, kRows> fields[32];
    Pack<__half, kRows> scales[4];
  };

  struct Source {
    RowsCursor<kRows> codes, high;
    const std::uint8_t* fields;
    const std::uint8_t* scales;
    __device__ Source(const RowGroup& g, int unit)
        : codes(g, g.view.codes, g.units() * 16, unit * 16),
          high(g, g.view.high, g.units() * 8, unit * 8),
          fields(by_four(g, g.view.fields, g.units(), unit, 2)),
          scales(by_four(g, g.view.scales, g.units() / 8, unit / 8, 2)) {}
    __device__ __forceinline__ void fetch(Stage& s, int lane) const {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        copy_async<16>(&s.codes[r][lane], codes.at[r]);
        copy_async<8>(&s.high[r][lane], high.at[r]);
      }
      copy_pack_async(s.fields[lane], fields);
      if (lane % 8 == 0) copy_pack_async(s.scales[lane / 8], scales);
    }
    __device__ __forceinline__ void advance() {
      codes.advance(32 * 16), high.advance(32 * 8);
      fields += 32 * 8, scales += 4 * 8;
    }
  };

  __device__ static void add(const Stage& s, const RowGroup&, int, int lane, const X& x,
                             float (&sum)[kRows]) {
    const auto fields = s.fields[lane];
    const auto scales = s.scales[lane / 8];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const HalfDots d = dot6(s.codes[r][lane], s.high[r][lane], x);
      const int a = std::int8_t(fields.row[r] & 0xFF), b = std::int8_t(fields.row[r] >> 8);
      const float offset = float(a) * x.sums.x + float(b) * x.sums.y;
      const float dot = fmaf(-32.0f, offset, x.scale * float(a * d.low + b * d.high));
      sum[r] = fmaf(__half2float(scales.row[r]), dot, sum[r]);
    }
  }
};

/// Q2_K and Q3_K: one unit per lane, 8 lanes per block.
template <QuantFormat F, int kRows>
struct LowBitsDot {
  static constexpr int kColumns = 32;
  static constexpr bool kThree = F == QuantFormat::kQ3_K;
  using Field = std::conditional_t<kThree, std::uint8_t, std::uint16_t>;
  using X = Quantized32;
  // A copy has at least 4 bytes: two rows with fields of a byte copy those of four.
  static constexpr int kFields = kRows * sizeof(Field) >= 4 ? kRows : 4 / int(sizeof(Field));
  // The bytes of a block's head that four rows share; as many lanes as needed copy 8 bytes each.
  static constexpr int kHeadBytes = kThree ? 24 : 16;

  struct Stage {
    uint2 codes[kRows][32];
    Pack<std::uint32_t, kRows> high[kThree ? 32 : 1];
    Pack<Field, kFields> fields[32];
    alignas(8) std::byte heads[4][kHeadBytes];
  };

  struct Source {
    RowsCursor<kRows> codes;
    const std::uint8_t* high;
    const std::uint8_t* fields;
    const std::uint8_t* heads;
    __device__ Source(const RowGroup& g, int unit)
        : codes(g, g.view.codes, g.units() * 8, unit * 8),
          high(by_four(g, g.view.high, g.units(), unit, 4)),
          fields(by_four(g, g.view.fields, g.units(), unit, int(sizeof(Field))) -
                 g.row % kFields * int(sizeof(Field))),
          heads(g.view.scales + (g.row / 4 * (g.units() / 8) + unit / 8) * kHeadBytes +
                unit % 8 * 8) {}
    __device__ __forceinline__ void fetch(Stage& s, int lane) const {
#pragma unroll
      for (int r = 0; r < kRows; ++r) copy_async<8>(&s.codes[r][lane], codes.at[r]);
      if constexpr (kThree) copy_pack_async(s.high[lane], high);
      copy_pack_async(s.fields[lane], fields);
      if (lane % 8 < kHeadBytes / 8) copy_async<8>(s.heads[lane / 8] + lane % 8 * 8, heads);
    }
    __device__ __forceinline__ void advance() {
      codes.advance(32 * 8);
      high += 32 * 16, fields += 32 * 4 * sizeof(Field), heads += 4 * kHeadBytes;
    }
  };

  __device__ static void add(const Stage& s, const RowGroup& g, int, int lane, const X& x,
                             float (&sum)[kRows]) {
    const int in_four = int(g.row % 4), field = int(g.row % kFields);
    const std::byte* const head = s.heads[lane / 8];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const HalfDots d = dot_low(s, r, lane, x);
      const std::uint32_t f = s.fields[lane].row[field + r];
      if constexpr (kThree) {
        const int2 by =
            q3_k_scales(f, reinterpret_cast<const std::uint32_t*>(head)[in_four + r], lane % 8);
        const float offset = float(by.x) * x.sums.x + float(by.y) * x.sums.y;
        const float dot = fmaf(-4.0f, offset, x.scale * float(by.x * d.low + by.y * d.high));
        sum[r] = fmaf(__half2float(reinterpret_cast<const __half*>(head + 16)[in_four + r]), dot,
                      sum[r]);
      } else {
        const float2 dm = __half22float2(reinterpret_cast<const __half2*>(head)[in_four + r]);
        const int both = int(f & 15) * d.low + int(f >> 8 & 15) * d.high;
        const float min = float(f >> 4 & 15) * x.sums.x + float(f >> 12) * x.sums.y;
        sum[r] = fmaf(dm.x, x.scale * float(both), fmaf(-dm.y, min, sum[r]));
      }
    }
  }

 private:
  __device__ static __forceinline__ HalfDots dot_low(const Stage& s, int r, int lane, const X& x) {
    const uint2 codes = s.codes[r][lane];
    std::uint32_t high = 0;
    if constexpr (kThree) high = s.high[lane].row[r];
    HalfDots d;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      std::uint32_t low = codes.x >> (2 * k) & 0x03030303, last = codes.y >> (2 * k) & 0x03030303;
      if constexpr (kThree) {
        low |= (k < 2 ? high << (2 - k) : high >> (k - 2)) & 0x04040404;
        last |= high >> (2 + k) & 0x04040404;
      }
      d.low = dot_us(low, x.q[k], d.low);
      d.high = dot_us(last, x.q[4 + k], d.high);
    }
    return d;
  }
};

}  // namespace rigcast::engine::cuda
