#pragma once
// Device code: what a lane of a warp does in each format. A warp goes along kRows rows at once, in
// steps; of a step every lane has kColumns neighbouring columns, whose activations it loads once.

#include <cuda_fp16.h>

#include <type_traits>

#include "engine/kernels/cuda/lane_loads.cuh"
#include "engine/kernels/cuda/native_blocks.cuh"
#include "engine/kernels/cuda/planes.cuh"

namespace rigcast::engine::cuda {

/// Rows [row, row + kRows) of a matrix, `row` a multiple of kRows. Those past the last row are read
/// as the last one.
struct RowGroup {
  PlaneView view;
  std::int64_t row;
  std::int64_t rows;
  int columns;

  __device__ __forceinline__ std::int64_t units() const { return columns / 32; }
  __device__ __forceinline__ std::int64_t row_at(int r) const {
    return row + r < rows ? row + r : rows - 1;
  }
};

// Where a lane is in a plane whose rows follow one another.
template <int kRows>
struct RowsCursor {
  const std::uint8_t* at[kRows];

  __device__ RowsCursor(const RowGroup& g, const std::uint8_t* plane, std::int64_t row_bytes,
                        int first) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) at[r] = plane + g.row_at(r) * row_bytes + first;
  }
  __device__ __forceinline__ void advance(int bytes) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) at[r] += bytes;
  }
};

// The same where four rows lie together, `bytes` of each in one of `parts` parts.
__device__ __forceinline__ const std::uint8_t* by_four(const RowGroup& g, const std::uint8_t* plane,
                                                       std::int64_t parts, int part, int bytes) {
  return plane + (g.row / 4 * parts + part) * (4 * bytes) + (g.row % 4) * bytes;
}

/// u: four unsigned bytes, s: four signed ones.
__device__ __forceinline__ int dot_us(std::uint32_t u, std::uint32_t s, int sum) {
  int out;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(u), "r"(s), "r"(sum));
  return out;
}
__device__ __forceinline__ int dot_ss(std::uint32_t a, std::uint32_t b, int sum) {
  return __dp4a(int(a), int(b), sum);
}

/// 32 rounded activations.
struct Rounded32 {
  std::uint32_t q[8];
  float scale;
  float2 sums;  // of each half

  // Where a lane is; it goes on by 32 units.
  struct Cursor {
    const std::int8_t* q;
    const float* scale;
    const float* sum16;
    __device__ Cursor(const Inputs& in, int unit)
        : q(in.rounded.q + unit * 32),
          scale(in.rounded.scale + unit),
          sum16(in.rounded.sum16 + unit * 2) {}
    __device__ __forceinline__ Rounded32 load() const {
      const uint4 a = load_input16(q), b = load_input16(q + 16);
      return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, load_input4(scale), load_input8(sum16)};
    }
    __device__ __forceinline__ void advance() { q += 1024, scale += 32, sum16 += 64; }
  };
};

__device__ __forceinline__ std::uint32_t word_of(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Sums of code * q over both halves of a unit.
struct HalfDots {
  int low = 0, high = 0;
};

// The high nibbles count 16 times until the end, which saves a shift of every word.
__device__ __forceinline__ HalfDots dot4(uint4 codes, const Rounded32& x) {
  HalfDots d;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    d.low = dot_us(word_of(codes, k) & 0x0F0F0F0F, x.q[k], d.low);
    d.high = dot_us(word_of(codes, k) & 0xF0F0F0F0, x.q[4 + k], d.high);
  }
  d.high >>= 4;
  return d;
}

__device__ __forceinline__ HalfDots dot5(uint4 codes, std::uint32_t high, const Rounded32& x) {
  HalfDots d;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::uint32_t word = word_of(codes, k);
    d.low = dot_us((word & 0x0F0F0F0F) | (high << (4 - k) & 0x10101010), x.q[k], d.low);
    d.high = dot_us((word >> 4 & 0x0F0F0F0F) | (high >> k & 0x10101010), x.q[4 + k], d.high);
  }
  return d;
}

__device__ __forceinline__ std::uint32_t two_above(std::uint32_t high, int k) {
  return (k < 2 ? high << (4 - 2 * k) : high >> (2 * k - 4)) & 0x30303030;
}

__device__ __forceinline__ HalfDots dot6(uint4 codes, uint2 high, const Rounded32& x) {
  HalfDots d;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::uint32_t word = word_of(codes, k);
    d.low = dot_us((word & 0x0F0F0F0F) | two_above(high.x, k), x.q[k], d.low);
    d.high = dot_us((word >> 4 & 0x0F0F0F0F) | two_above(high.y, k), x.q[4 + k], d.high);
  }
  return d;
}

// The part that is a group's of what four rows have together.
template <class T, int kRows>
struct alignas(sizeof(T) * kRows >= 16 ? 16 : sizeof(T) * kRows) Pack {
  T row[kRows];
};
template <class T, int kRows>
__device__ __forceinline__ void begin_pack(Pack<T, kRows>& to, const std::uint8_t* from) {
  begin_copy<int(sizeof to)>(&to, from);
}

// What follows has, for each family of formats:
// - kColumns, of a lane in a step; X, their activations;
// - Stage, the weights of a step in shared memory;
// - Source, where a lane is: fetch() begins the copies of a step, advance() goes to the next one;
// - add(), which multiplies a step. Both of a lane whose columns exist.

/// Q4_0, Q4_1, Q5_0, Q5_1: a unit a lane.
template <QuantFormat F, int kRows>
struct LegacyDot {
  static constexpr int kColumns = 32;
  static constexpr bool kFive = F == QuantFormat::kQ5_0 || F == QuantFormat::kQ5_1;
  static constexpr bool kMin = F == QuantFormat::kQ4_1 || F == QuantFormat::kQ5_1;
  using Scale = std::conditional_t<kMin, __half2, __half>;
  using X = Rounded32;

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
      for (int r = 0; r < kRows; ++r) begin_copy<16>(&s.codes[r][lane], codes.at[r]);
      if constexpr (kFive) begin_pack(s.high[lane], high);
      begin_pack(s.scales[lane], scales);
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

/// Q8_0: half a unit a lane.
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
          : q(in.rounded.q + half * 16), scale(in.rounded.scale + half / 2) {}
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
      for (int r = 0; r < kRows; ++r) begin_copy<16>(&s.codes[r][lane], codes.at[r]);
      if (lane % 2 == 0) begin_pack(s.scales[lane / 2], scales);
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

/// Q4_K and Q5_K: a unit a lane, 8 lanes a block.
template <QuantFormat F, int kRows>
struct KDot {
  static constexpr int kColumns = 32;
  static constexpr bool kFive = F == QuantFormat::kQ5_K;
  using X = Rounded32;

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
    int heads_left;  // 0 and below: the lane has none to copy
    __device__ Source(const RowGroup& g, int unit)
        : codes(g, g.view.codes, g.units() * 16, unit * 16),
          high(by_four(g, g.view.high, g.units(), unit, 4)) {
      const int lane = unit % 32, block = unit / 32 * 4 + lane % 4, blocks = g.columns / 256;
      heads = g.view.fields + (g.row_at(lane / 4) * blocks + block) * 16;
      heads_left = lane < 4 * kRows ? blocks - block : 0;
    }
    __device__ __forceinline__ void fetch(Stage& s, int lane) const {
#pragma unroll
      for (int r = 0; r < kRows; ++r) begin_copy<16>(&s.codes[r][lane], codes.at[r]);
      if constexpr (kFive) begin_pack(s.high[lane], high);
    }
    // By all lanes, those past the last column as well.
    __device__ __forceinline__ void fetch_shared(Stage& s, int lane) const {
      if (heads_left > 0) begin_copy<16>(&s.heads[lane / 4][lane % 4], heads);
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

/// Q6_K: a unit a lane, 8 lanes a block.
template <int kRows>
struct SixDot {
  static constexpr int kColumns = 32;
  using X = Rounded32;

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
        begin_copy<16>(&s.codes[r][lane], codes.at[r]);
        begin_copy<8>(&s.high[r][lane], high.at[r]);
      }
      begin_pack(s.fields[lane], fields);
      if (lane % 8 == 0) begin_pack(s.scales[lane / 8], scales);
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

/// IQ4_NL, IQ4_XS, MXFP4: a unit a lane; codes become the int8 of a table.
template <QuantFormat F, int kRows>
struct CodebookDot {
  static constexpr int kColumns = 32;
  static constexpr bool kBlocks256 = F == QuantFormat::kIQ4_XS;
  using Scale = std::conditional_t<F == QuantFormat::kMXFP4, std::uint8_t, __half>;
  using X = Rounded32;
  // A copy has at least 4 bytes: two rows with scales of a byte copy those of four.
  static constexpr int kScales = kRows * sizeof(Scale) >= 4 ? kRows : 4 / int(sizeof(Scale));

  struct Stage {
    uint4 codes[kRows][32];
    uint2 heads[kRows][kBlocks256 ? 4 : 1];
    Pack<Scale, kScales> scales[kBlocks256 ? 1 : 32];
  };

  // Of IQ4_XS lane i copies the head of row i / 4 and block i % 4 of the step.
  struct Source {
    RowsCursor<kRows> codes;
    const std::uint8_t* scales;
    int heads_left = 0;  // 0 and below: the lane has none to copy
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
      for (int r = 0; r < kRows; ++r) begin_copy<16>(&s.codes[r][lane], codes.at[r]);
      if constexpr (!kBlocks256) begin_pack(s.scales[lane], scales);
    }
    // By all lanes, those past the last column as well.
    __device__ __forceinline__ void fetch_shared(Stage& s, int lane) const {
      if constexpr (kBlocks256)
        if (heads_left > 0) begin_copy<8>(&s.heads[lane / 4][lane % 4], scales);
    }
    __device__ __forceinline__ void advance() {
      codes.advance(32 * 16);
      scales += kBlocks256 ? 4 * 8 : 32 * 4 * int(sizeof(Scale));
      heads_left -= 4;
    }
  };

  __device__ static void add(const Stage& s, const RowGroup& g, int, int lane, const X& x,
                             float (&sum)[kRows]) {
    const int first = int(g.row % kScales);  // 0 where copies have no more than the group's rows
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint4 codes = s.codes[r][lane];
      int dot = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const uint2 values = codebook_values<F>(word_of(codes, k));
        dot = dot_ss(values.y, x.q[4 + k], dot_ss(values.x, x.q[k], dot));
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

/// Q2_K and Q3_K: a unit a lane, 8 lanes a block.
template <QuantFormat F, int kRows>
struct LowBitsDot {
  static constexpr int kColumns = 32;
  static constexpr bool kThree = F == QuantFormat::kQ3_K;
  using Field = std::conditional_t<kThree, std::uint8_t, std::uint16_t>;
  using X = Rounded32;
  // A copy has at least 4 bytes: two rows with fields of a byte copy those of four.
  static constexpr int kFields = kRows * sizeof(Field) >= 4 ? kRows : 4 / int(sizeof(Field));
  // What four rows have together of a block, copied by as many lanes, 8 bytes each.
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
      for (int r = 0; r < kRows; ++r) begin_copy<8>(&s.codes[r][lane], codes.at[r]);
      if constexpr (kThree) begin_pack(s.high[lane], high);
      begin_pack(s.fields[lane], fields);
      if (lane % 8 < kHeadBytes / 8) begin_copy<8>(s.heads[lane / 8] + lane % 8 * 8, heads);
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

/// F32, F16, BF16: 16 bytes a lane.
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
      for (int r = 0; r < kRows; ++r) begin_copy<16>(&s.weights[r][lane], codes.at[r]);
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
inline constexpr bool kTakesFloats =
    F == QuantFormat::kF32 || F == QuantFormat::kF16 || F == QuantFormat::kBF16;

template <QuantFormat F, int kRows>
struct LaneDotOf {
  using enum QuantFormat;
  static constexpr bool kLegacy = F == kQ4_0 || F == kQ4_1 || F == kQ5_0 || F == kQ5_1;
  using Low = std::conditional_t<kTakesCodebook<F>, CodebookDot<F, kRows>, LowBitsDot<F, kRows>>;
  using type = std::conditional_t<
      kTakesFloats<F>, FloatDot<F, kRows>,
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
