// No instruction set in particular: for CPUs without AVX2, and to test the others against.
#include "engine/kernels/cpu/int8/targets.hpp"
#include "engine/kernels/ref/half.hpp"

namespace rigcast::engine::cpu {
namespace {

constexpr int kLanes = 4;
struct Ints {
  std::int32_t lane[kLanes];
};
struct Floats {
  float lane[kLanes];
};
struct RowInts {
  std::int32_t low, high;  // of 16 products each
};
using RowFloats = float;
using TileInts = Ints;
using TileFloats = Floats;

inline float half_at(const std::byte* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return ref::half_to_float(bits);
}

inline RowFloats row_zero() { return 0; }
template <bool kSevenBits>
inline RowInts row_dot(const std::uint8_t* u, const std::int8_t* q) {
  RowInts sum{};
  for (int i = 0; i < 16; ++i) sum.low += u[i] * q[i];
  for (int i = 16; i < 32; ++i) sum.high += u[i] * q[i];
  return sum;
}
inline RowFloats multiply_add(RowInts dot, float low, float high, RowFloats sum) {
  return sum + low * float(dot.low) + high * float(dot.high);
}
inline RowFloats multiply_add(RowInts dot, float scale, RowFloats sum) {
  return sum + scale * float(dot.low + dot.high);
}
inline float total(RowFloats v) { return v; }

inline TileInts tile_zero() { return {}; }
// Four bytes a lane, as they lie.
inline TileInts tile_weights(const std::uint8_t* u) {
  TileInts w;
  std::memcpy(w.lane, u, sizeof w.lane);
  return w;
}
template <bool kSevenBits>
inline TileInts tile_dot(TileInts sum, const TileInts& weights, const std::int8_t* q) {
  std::uint8_t u[4 * kLanes];
  std::memcpy(u, weights.lane, sizeof u);
  for (int i = 0; i < kLanes; ++i)
    for (int k = 0; k < 4; ++k) sum.lane[i] += u[4 * i + k] * q[k];
  return sum;
}
inline void tile_transpose(const void* from, std::size_t stride, void* low, void* high) {
  for (std::size_t k = 0; k < kLanes; ++k)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      constexpr std::size_t kHalf = kLanes / 2;
      std::byte* const to = static_cast<std::byte*>(k < kHalf ? low : high);
      std::memcpy(to + 4 * (k % kHalf * kLanes + lane),
                  static_cast<const std::byte*>(from) + lane * stride + 4 * k, 4);
    }
}
inline TileFloats tile_load(const float* p) {
  TileFloats v;
  std::memcpy(v.lane, p, sizeof v.lane);
  return v;
}
inline void tile_store(const TileFloats& v, float* p) { std::memcpy(p, v.lane, sizeof v.lane); }
inline TileFloats tile_scale(const TileInts& dot, const TileFloats& a, float scale,
                             const TileFloats& b, float sum, TileFloats total) {
  for (int i = 0; i < kLanes; ++i)
    total.lane[i] += float(dot.lane[i]) * a.lane[i] * scale + b.lane[i] * sum;
  return total;
}

// 32 weights of four bits, those of the low halves first.
inline void unpack_fours(const std::byte* at, std::uint8_t* u) {
  for (int i = 0; i < 16; ++i) {
    u[i] = std::uint8_t(at[i] & std::byte{15});
    u[i + 16] = std::uint8_t(at[i] >> 4);
  }
}
// The same with a fifth bit each, which lie before them.
inline void unpack_fives(const std::byte* at, std::uint8_t* u) {
  std::uint32_t high;
  std::memcpy(&high, at, sizeof high);
  unpack_fours(at + 4, u);
  for (int i = 0; i < 32; ++i) u[i] = std::uint8_t(u[i] | (((high >> i) & 1) << 4));
}
inline void unpack_halves(const std::uint8_t* q, std::uint8_t* low, std::uint8_t* high) {
  for (int i = 0; i < 32; ++i) {
    low[i] = q[i] & 15;
    high[i] = q[i] >> 4;
  }
}
inline void unpack_sixes(const std::uint8_t* low, const std::uint8_t* high, std::uint8_t* u) {
  for (int i = 0; i < 32; ++i) {
    u[i] = std::uint8_t((low[i] & 15) | ((high[i] & 3) << 4));
    u[i + 32] = std::uint8_t((low[i + 32] & 15) | (((high[i] >> 2) & 3) << 4));
    u[i + 64] = std::uint8_t((low[i] >> 4) | (((high[i] >> 4) & 3) << 4));
    u[i + 96] = std::uint8_t((low[i + 32] >> 4) | ((high[i] >> 6) << 4));
  }
}
inline void scale_eight(float factor, std::uint64_t bytes, float* to) {
  for (int i = 0; i < 8; ++i) to[i] = factor * float(bytes >> (8 * i) & 255);
}
inline void scale_sixteen(float factor, const std::byte* at, float* to) {
  for (int i = 0; i < 16; ++i) to[i] = factor * float(std::int8_t(at[i]));
}
inline void look_up(const std::byte* at, const std::uint8_t* table, std::uint8_t* u) {
  for (int i = 0; i < 16; ++i) {
    u[i] = table[std::size_t(at[i] & std::byte{15})];
    u[i + 16] = table[std::size_t(at[i] >> 4)];
  }
}
inline void put_signed(const std::uint64_t (&points)[4], std::uint32_t signs, std::uint8_t middle,
                       std::uint8_t* u) {
  for (int i = 0; i < 32; ++i) {
    const int value = int(points[i / 8] >> (8 * (i % 8)) & 255);
    u[i] = std::uint8_t(signs >> i & 1 ? middle - value : middle + value);
  }
}

#include "engine/kernels/cpu/int8/unpack.inc"
// after look_up
#include "engine/kernels/cpu/int8/unpack_codes.inc"
// after put_signed and unpack_codes
#include "engine/kernels/cpu/int8/unpack_grids.inc"
// after the formats
#include "engine/kernels/cpu/int8/tiles.inc"

template <class Format>
void batch(const Matrix& w, std::int64_t first, std::int64_t last, const QuantizedRows& x, float* y,
           std::int64_t stride, TileScratch& scratch) {
  tiled<Format>(w, first, last, x, y, stride, scratch);
}
// after batch
#include "engine/kernels/cpu/int8/batch.inc"

// One run of a row: sum of a * u * x by 32 weights, and of b * sum of x.
template <class Format>
void add_run(const std::byte* row, int weights, const std::int8_t* q, const float* scale,
             const float* sums, RowFloats& products, float& offsets) {
  Unpacked<Format> w;
  w.read(row, weights);
  if constexpr (Format::kScaleBlock == 32) {
    for (int s = 0; s < weights / 32; ++s)
      products = multiply_add(row_dot<Format::kSevenBits>(w.u + 32 * s, q + 32 * s),
                              w.a()[s] * scale[s], products);
  } else {
    for (int s = 0; s < weights / 32; ++s)
      products = multiply_add(row_dot<Format::kSevenBits>(w.u + 32 * s, q + 32 * s),
                              w.a()[2 * s] * scale[s], w.a()[2 * s + 1] * scale[s], products);
  }
  for (int s = 0; s < weights / Format::kScaleBlock; ++s) offsets += w.b()[s] * sums[s];
}

template <class Format>
float row_product(const std::byte* row, std::int64_t columns, const QuantizedRow& x) {
  RowFloats products = row_zero();
  float offsets = 0;
  const float* sums = Format::kScaleBlock == 32 ? x.sum32.data() : x.sum16.data();
  std::int64_t done = 0;
  const auto run = [&](int weights) {
    add_run<Format>(row + done / Format::kBlock * Format::kBytes, weights, x.q.data() + done,
                    x.scale.data() + done / 32, sums + done / Format::kScaleBlock, products,
                    offsets);
    done += weights;
  };
  while (done + kRun <= columns) run(kRun);
  if (done < columns) run(int(columns - done));
  return total(products) + offsets;
}

template <class Format>
void rows(const Matrix& w, std::int64_t first, std::int64_t last, const QuantizedRow& x, float* y) {
  for (std::int64_t i = first; i < last; ++i)
    y[i - first] = row_product<Format>(w.row(i), w.columns, x);
}

void multiply_row(const Matrix& w, std::int64_t first, std::int64_t last, const QuantizedRow& x,
                  float* y) {
  switch (w.format) {
    case QuantFormat::kQ8_0: return rows<Q8_0>(w, first, last, x, y);
    case QuantFormat::kQ4_0: return rows<Q4_0>(w, first, last, x, y);
    case QuantFormat::kQ4_1: return rows<Q4_1>(w, first, last, x, y);
    case QuantFormat::kQ5_0: return rows<Q5_0>(w, first, last, x, y);
    case QuantFormat::kQ5_1: return rows<Q5_1>(w, first, last, x, y);
    case QuantFormat::kQ4_K: return rows<Q4_K>(w, first, last, x, y);
    case QuantFormat::kQ5_K: return rows<Q5_K>(w, first, last, x, y);
    case QuantFormat::kQ6_K: return rows<Q6_K>(w, first, last, x, y);
    case QuantFormat::kQ2_K: return rows<Q2_K>(w, first, last, x, y);
    case QuantFormat::kQ3_K: return rows<Q3_K>(w, first, last, x, y);
    case QuantFormat::kIQ4_NL: return rows<IQ4_NL>(w, first, last, x, y);
    case QuantFormat::kIQ4_XS: return rows<IQ4_XS>(w, first, last, x, y);
    case QuantFormat::kMXFP4: return rows<MXFP4>(w, first, last, x, y);
    case QuantFormat::kIQ1_S: return rows<IQ1_S>(w, first, last, x, y);
    case QuantFormat::kIQ1_M: return rows<IQ1_M>(w, first, last, x, y);
    case QuantFormat::kIQ2_XXS: return rows<IQ2_XXS>(w, first, last, x, y);
    case QuantFormat::kIQ2_XS: return rows<IQ2_XS>(w, first, last, x, y);
    case QuantFormat::kIQ2_S: return rows<IQ2_S>(w, first, last, x, y);
    case QuantFormat::kIQ3_XXS: return rows<IQ3_XXS>(w, first, last, x, y);
    case QuantFormat::kIQ3_S: return rows<IQ3_S>(w, first, last, x, y);
    case QuantFormat::kTQ1_0: return rows<TQ1_0>(w, first, last, x, y);
    case QuantFormat::kTQ2_0: return rows<TQ2_0>(w, first, last, x, y);
    case QuantFormat::kNVFP4: return rows<NVFP4>(w, first, last, x, y);
    default: RIGCAST_ASSERT(!"a format with an int8 kernel");
  }
}

void multiply_few(const Matrix& w, std::int64_t first, std::int64_t last, const QuantizedRow* x,
                  std::int64_t count, float* y, std::int64_t stride) {
  for (std::int64_t t = 0; t < count; ++t)
    multiply_row(w, first, last, x[t], y + t * stride + first);
}

}  // namespace

extern const Int8Kernels kInt8Plain;
const Int8Kernels kInt8Plain{"plain", multiply_row, multiply_few, multiply_batch};

}  // namespace rigcast::engine::cpu
