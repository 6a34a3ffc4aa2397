#pragma once
// Device code: the dot product of one lane, for each format. A warp goes along kRows rows at once,
// in steps. In a step every lane has kColumns neighbouring columns, whose activations it loads
// once.

#include <cuda_fp16.h>

#include <type_traits>

#include "engine/kernels/cuda/matvec/lane_dot_blocks.cuh"
#include "engine/kernels/cuda/matvec/lane_dot_k.cuh"
#include "engine/kernels/cuda/matvec/lane_rows.cuh"
#include "engine/kernels/cuda/weights/gguf_blocks.cuh"

namespace rigcast::engine::cuda {

// What follows, and lane_dot_k.cuh and lane_dot_blocks.cuh, has, for each family of formats:
// - kColumns, of a lane in a step; X, their activations;
// - Stage, the weights of a step in shared memory;
// - Source, where a lane is: fetch() begins the copies of a step, advance() goes to the next one;
// - add(), which multiplies a step. Both of a lane whose columns exist.

/// Q4_0, Q4_1, Q5_0, Q5_1: one unit of 32 weights per lane.
template <QuantFormat F, int kRows>
struct LegacyDot {
  static constexpr int kColumns = 32;
  static constexpr bool kFive = F == QuantFormat::kQ5_0 || F == QuantFormat::kQ5_1;
  static constexpr bool kMin = F == QuantFormat::kQ4_1 || F == QuantFormat::kQ5_1;
  using Scale = std::conditional_t<kMin, __half2, __half>;
  using X = Quantized32;

  struct Stage {
    uint4 codes[kRows][32];
    Pack<std::uint32_t, kRows> high[kFive ? 32 : 1];
    Pack<Scale, kRows> scales[32];
  };

  struct Source {
    RowsCursor<kRows> codes;
    const std::uint8_t* high;
    const std::uint8_t* scales;
    __device__ Source(const RowGroup& g, int unit)
        : codes(g, g.view.codes, g.units() * 16, unit * 16),
          high(by_four(g, g.view.high, g.units(), unit, 4)),
          scales(by_four(g, g.view.scales, g.units(), unit, int(sizeof(Scale)))) {}
    __device__ __forceinline__ void fetch(Stage& s, int lane) const {
#pragma unroll
      for (int r = 0; r < kRows; ++r) copy_async<16>(&s.codes[r][lane], codes.at[r]);
      if constexpr (kFive) copy_pack_async(s.high[lane], high);
      copy_pack_async(s.scales[lane], scales);
    }
    __device__ __forceinline__ void advance() {
      codes.advance(32 * 16);
      high += 32 * 16, scales += 32 * 4 * sizeof(Scale);
    }
  };

  __device__ static void add(const Stage& s, const RowGroup&, int, int lane, const X& x,
                             float (&sum)[kRows]) {
    constexpr float kOffset = kFive ? 16 : 8;
    const auto scales = s.scales[lane];
    const float x_sum = x.sums.x + x.sums.y;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      HalfDots d;
      if constexpr (kFive)
        d = dot5(s.codes[r][lane], s.high[lane].row[r], x);
      else
        d = dot4(s.codes[r][lane], x);
      const float dot = x.scale * float(d.low + d.high);
      if constexpr (kMin) {
        const float2 dm = __half22float2(scales.row[r]);
        sum[r] = fmaf(dm.x, dot, fmaf(dm.y, x_sum, sum[r]));
      } else {
        sum[r] = fmaf(__half2float(scales.row[r]), fmaf(-kOffset, x_sum, dot), sum[r]);
      }
    }
  }
};

/// Q8_0: half a unit per lane.
template <int kRows>
struct EightDot {
  static constexpr int kColumns = 16;
  struct X {
    uint4 q;
    float scale;
    struct Cursor {
      const std::int8_t* q;
      const float* scale;
      __device__ Cursor(const Inputs& in, int half)
          : q(in.quantized.q + half * 16), scale(in.quantized.scale + half / 2) {}
      __device__ __forceinline__ X load() const { return {load_input16(q), load_input4(scale)}; }
      __device__ __forceinline__ void advance() { q += 512, scale += 16; }
    };
  };
  struct Stage {
    uint4 codes[kRows][32];
    Pack<__half, kRows> scales[16];
  };

  struct Source {
    RowsCursor<kRows> codes;
    const std::uint8_t* scales;
    __device__ Source(const RowGroup& g, int half)
        : codes(g, g.view.codes, g.columns, half * 16),
          scales(by_four(g, g.view.scales, g.units(), half / 2, 2)) {}
    __device__ __forceinline__ void fetch(Stage& s, int lane) const {
#pragma unroll
      for (int r = 0; r < kRows; ++r) copy_async<16>(&s.codes[r][lane], codes.at[r]);
      if (lane % 2 == 0) copy_pack_async(s.scales[lane / 2], scales);
    }
    __device__ __forceinline__ void advance() { codes.advance(512), scales += 16 * 8; }
  };

  __device__ static void add(const Stage& s, const RowGroup&, int, int lane, const X& x,
                             float (&sum)[kRows]) {
    const auto scales = s.scales[lane / 2];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint4 codes = s.codes[r][lane];
      int dot = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) dot = dot_ss(word_of(codes, k), word_of(x.q, k), dot);
      sum[r] = fmaf(__half2float(scales.row[r]), x.scale * float(dot), sum[r]);
    }
  }
};

/// IQ4_NL, IQ4_XS, MXFP4: one unit per lane; codes are looked up in an int8 table.
template <QuantFormat F, int kRows>
struct CodebookDot {
  static constexpr int kColumns = 32;
  static constexpr bool kBlocks256 = F == QuantFormat::kIQ4_XS;
  using Scale = std::conditional_t<F == QuantFormat::kMXFP4, std::uint8_t, __half>;
  using X = Quantized32;
  // A copy has at least 4 bytes: two rows with scales of a byte copy those of four.
  static constexpr int kScales = kRows * sizeof(Scale) >= 4 ? kRows : 4 / int(sizeof(Scale));

  struct Stage {
    uint4 codes[kRows][32];
    uint2 heads[kRows][kBlocks256 ? 4 : 1];
    Pack<Scale, kScales> scales[kBlocks256 ? 1 : 32];
  };

  // For IQ4_XS, lane i copies the head of row i / 4 and block i % 4 of the step.
  struct Source {
    RowsCursor<kRows> codes;
    const std::uint8_t* scales;
    int heads_left = 0;  // 0 or less: the lane has no more to copy
    __device__ Source(const RowGroup& g, int unit)
        : codes(g, g.view.codes, g.units() * 16, unit * 16) {
      if constexpr (kBlocks256) {
        const int lane = unit % 32, block = unit / 32 * 4 + lane % 4, blocks = g.columns / 256;
        scales = g.view.fields + (g.row_at(lane / 4) * blocks + block) * 8;
        heads_left = lane < 4 * kRows ? blocks - block : 0;
      } else {
        scales = by_four(g, g.view.scales, g.units(), unit, int(sizeof(Scale))) -
                 g.row % kScales * int(sizeof(Scale));
      }
    }
    __device__ __forceinline__ void fetch(Stage& s, int lane) const {
#pragma unroll
      for (int r = 0; r < kRows; ++r) copy_async<16>(&s.codes[r][lane], codes.at[r]);
      if constexpr (!kBlocks256) copy_pack_async(s.scales[lane], scales);
    }
    // Called by all lanes, including those past the last column.
    __device__ __forceinline__ void fetch_heads(Stage& s, int lane) const {
      if constexpr (kBlocks256)
        if (heads_left > 0) copy_async<8>(&s.heads[lane / 4][lane % 4], scales);
    }
    __device__ __forceinline__ void advance() {
      codes.advance(32 * 16);
      scales += kBlocks256 ? 4 * 8 : 32 * 4 * int(sizeof(Scale));
      heads_left -= 4;
    }
  };

  __device__ static void add(const Stage& s, const RowGroup& g, int, int lane, const X& x,
                             float (&sum)[kRows]) {
    const int first = int(g.row % kScales);  // 0 where a copy has only the group's rows
    uint2 in[4];                             // once for all rows, instead of each row's values
#pragma unroll
    for (int k = 0; k < 4; ++k) in[k] = alternating(x.q[k], x.q[4 + k]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint4 codes = s.codes[r][lane];
      int dot = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const uint2 values = alternating_values<F>(word_of(codes, k));
        dot = dot_ss(values.y, in[k].y, dot_ss(values.x, in[k].x, dot));
      }
      sum[r] = fmaf(scale_of(s, r, first, lane), x.scale * float(dot), sum[r]);
    }
  }

 private:
  __device__ static __forceinline__ float scale_of(const Stage& s, int r, int first, int lane) {
    if constexpr (kBlocks256)
      return iq4_xs_scale(s.heads[r][lane / 8], lane % 8);
    else if constexpr (F == QuantFormat::kMXFP4)
      return mxfp4_scale(s.scales[lane].row[first + r]);
    else
      return __half2float(s.scales[lane].row[first + r]);
  }
};

/// F32, F16, BF16: 16 bytes per lane.
template <QuantFormat F, int kRows>
struct FloatDot {
  static constexpr int kBytes = F == QuantFormat::kF32 ? 4 : 2;
  static constexpr int kColumns = 16 / kBytes;
  struct X {
    float value[kColumns];
    struct Cursor {
      const float* at;
      __device__ Cursor(const Inputs& in, int part) : at(in.floats + part * kColumns) {}
      __device__ __forceinline__ X load() const {
        X x;
#pragma unroll
        for (int i = 0; i < kColumns; i += 4) {
          const uint4 v = load_input16(at + i);
          for (int k = 0; k < 4; ++k) x.value[i + k] = __uint_as_float(word_of(v, k));
        }
        return x;
      }
      __device__ __forceinline__ void advance() { at += 32 * kColumns; }
    };
  };
  struct Stage {
    uint4 weights[kRows][32];
  };

  struct Source {
    RowsCursor<kRows> codes;
    __device__ Source(const RowGroup& g, int part)
        : codes(g, g.view.codes, std::int64_t(g.columns) * kBytes, part * 16) {}
    __device__ __forceinline__ void fetch(Stage& s, int lane) const {
#pragma unroll
      for (int r = 0; r < kRows; ++r) copy_async<16>(&s.weights[r][lane], codes.at[r]);
    }
    __device__ __forceinline__ void advance() { codes.advance(512); }
  };

  __device__ static void add(const Stage& s, const RowGroup&, int, int lane, const X& x,
                             float (&sum)[kRows]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) add_words(s.weights[r][lane], x, sum[r]);
  }

  __device__ static void add_words(uint4 w, const X& x, float& sum) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t word = word_of(w, i);
      if constexpr (F == QuantFormat::kF32) {
        sum = fmaf(__uint_as_float(word), x.value[i], sum);
      } else if constexpr (F == QuantFormat::kF16) {
        const __half2 pair = *reinterpret_cast<const __half2*>(&word);
        sum = fmaf(__low2float(pair), x.value[2 * i], sum);
        sum = fmaf(__high2float(pair), x.value[2 * i + 1], sum);
      } else {
        sum = fmaf(__uint_as_float(word << 16), x.value[2 * i], sum);
        sum = fmaf(__uint_as_float(word & 0xFFFF0000), x.value[2 * i + 1], sum);
      }
    }
  }
};

template <QuantFormat F>
inline constexpr bool kFloatWeights =
    F == QuantFormat::kF32 || F == QuantFormat::kF16 || F == QuantFormat::kBF16;

template <QuantFormat F, int kRows>
struct LaneDotOf {
  using enum QuantFormat;
  static constexpr bool kLegacy = F == kQ4_0 || F == kQ4_1 || F == kQ5_0 || F == kQ5_1;
  using Low = std::conditional_t<
      kWholeBlocks<F>, BlockDot<F, kRows>,
      std::conditional_t<kCodebookWeights<F>, CodebookDot<F, kRows>, LowBitsDot<F, kRows>>>;
  using type = std::conditional_t<
      kFloatWeights<F>, FloatDot<F, kRows>,
      std::conditional_t<
          kLegacy, LegacyDot<F, kRows>,
          std::conditional_t<
              F == kQ8_0, EightDot<kRows>,
              std::conditional_t<F == kQ4_K || F == kQ5_K, KDot<F, kRows>,
                                 std::conditional_t<F == kQ6_K, SixDot<kRows>, Low>>>>>;
};
template <QuantFormat F, int kRows>
using LaneDot = typename LaneDotOf<F, kRows>::type;

}  // namespace rigcast::engine::cuda
