#pragma once
// Device code: the position of a lane in weights and activations, and products of four bytes.

#include <cstdint>

#include "engine/kernels/cuda/matvec/lane_loads.cuh"
#include "engine/kernels/cuda/weights/soa_layout.cuh"

namespace rigcast::engine::cuda {

/// Rows [row, row + kRows) of a matrix; `row` is a multiple of kRows. Rows past the last repeat the
/// last one.
struct RowGroup {
  SoaView view;
  std::int64_t row;
  std::int64_t rows;
  int columns;

  __device__ __forceinline__ std::int64_t units() const { return columns / 32; }
  __device__ __forceinline__ std::int64_t row_at(int r) const {
    return row + r < rows ? row + r : rows - 1;
  }
};

// The position of a lane in an array whose rows follow one another.
template <int kRows>
struct RowsCursor {
  const std::uint8_t* at[kRows];

  __device__ RowsCursor(const RowGroup& g, const std::uint8_t* field, std::int64_t row_bytes,
                        int first) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) at[r] = field + g.row_at(r) * row_bytes + first;
  }
  __device__ __forceinline__ void advance(int bytes) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) at[r] += bytes;
  }
};

// The address in an array that interleaves four rows, with `bytes` bytes of each row in one of
// `parts` parts.
__device__ __forceinline__ const std::uint8_t* by_four(const RowGroup& g, const std::uint8_t* field,
                                                       std::int64_t parts, int part, int bytes) {
  return field + (g.row / 4 * parts + part) * (4 * bytes) + (g.row % 4) * bytes;
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

/// 32 quantized activations.
struct Quantized32 {
  std::uint32_t q[8];
  float scale;
  float2 sums;  // sums of the two halves

  // The position of a lane; advance() moves it by 32 units.
  struct Cursor {
    const std::int8_t* q;
    const float* scale;
    const float* sum16;
    __device__ Cursor(const Inputs& in, int unit)
        : q(in.quantized.q + unit * 32),
          scale(in.quantized.scale + unit),
          sum16(in.quantized.sum16 + unit * 2) {}
    __device__ __forceinline__ Quantized32 load() const {
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

// The high nibbles count 16 times until the last line, which saves a shift of every word.
__device__ __forceinline__ HalfDots dot4(uint4 codes, const Quantized32& x) {
  HalfDots d;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    d.low = dot_us(word_of(codes, k) & 0x0F0F0F0F, x.q[k], d.low);
    d.high = dot_us(word_of(codes, k) & 0xF0F0F0F0, x.q[4 + k], d.high);
  }
  d.high >>= 4;
  return d;
}

__device__ __forceinline__ HalfDots dot5(uint4 codes, std::uint32_t high, const Quantized32& x) {
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

__device__ __forceinline__ HalfDots dot6(uint4 codes, uint2 high, const Quantized32& x) {
  HalfDots d;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::uint32_t word = word_of(codes, k);
    d.low = dot_us((word & 0x0F0F0F0F) | two_above(high.x, k), x.q[k], d.low);
    d.high = dot_us((word >> 4 & 0x0F0F0F0F) | two_above(high.y, k), x.q[4 + k], d.high);
  }
  return d;
}

// The group's part of the data that four rows share.
template <class T, int kRows>
struct alignas(sizeof(T) * kRows >= 16 ? 16 : sizeof(T) * kRows) Pack {
  T row[kRows];
};
template <class T, int kRows>
__device__ __forceinline__ void copy_pack_async(Pack<T, kRows>& to, const std::uint8_t* from) {
  copy_async<int(sizeof to)>(&to, from);
}

}  // namespace rigcast::engine::cuda
