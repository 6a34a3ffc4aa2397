#pragma once
// Device code: dequantizes eight neighbouring weights.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "engine/kernels/cuda/weights/gguf_blocks.cuh"
#include "engine/kernels/cuda/weights/grid_blocks.cuh"
#include "engine/kernels/cuda/weights/soa_layout.cuh"

namespace rigcast::engine::cuda {

/// A row of a matrix, and the number of units of 32 weights in a row.
struct RowOf {
  std::int64_t row;
  std::int64_t units;
  __device__ std::int64_t by_row(int unit) const { return row * units + unit; }
  __device__ std::int64_t by_four(int unit) const { return (row / 4 * units + unit) * 4 + row % 4; }
};

template <class T>
__device__ inline T load_as(const std::uint8_t* from) {
  return *reinterpret_cast<const T*>(from);
}

/// Scale and min of unit `s` of a K block from its head: d, dmin, 8 * (6 + 6) bits.
struct KFields {
  float scale, min;
};
__device__ inline KFields k_fields(uint4 head, int s) {
  const std::uint32_t low = s < 3 ? head.y : s < 6 ? head.z : head.w;
  const std::uint32_t high = s < 3 ? head.z : head.w;
  const std::uint32_t f = __funnelshift_r(low, high, 12 * s);
  return {half_bits(head.x & 0xFFFF) * float(f & 63), half_bits(head.x >> 16) * float(f >> 6 & 63)};
}

// Byte i of `codes` minus an offset. The byte becomes the low bits of the float 2^23, which needs
// no conversion.
template <int kOffset>
__device__ inline float code_float(std::uint32_t codes, int i) {
  const std::uint32_t bits = __byte_perm(codes, 0x4B000000, 0x7440 + i);
  return __uint_as_float(bits) - float(8388608 + kOffset);
}

// Weights 8 * part + i of a unit: their codes without the scale.
template <QuantFormat F>
__device__ inline void codes_of(const SoaView& v, const RowOf& at, int unit, int part,
                                float (&w)[8]) {
  using enum QuantFormat;
  constexpr bool kFive = F == kQ5_0 || F == kQ5_1 || F == kQ5_K;
  constexpr int kOffset = F == kQ4_0 ? 8 : F == kQ5_0 ? 16 : F == kQ6_K ? 32 : 0;
  const uint2 codes = load_as<uint2>(v.codes + at.by_row(unit) * 16 + 8 * (part & 1));
  std::uint32_t high = 0;
  if constexpr (kFive) high = load_as<std::uint32_t>(v.high + at.by_four(unit) * 4) >> (2 * part);
  if constexpr (F == kQ6_K)
    high =
        load_as<std::uint32_t>(v.high + at.by_row(unit) * 8 + 4 * (part >> 1)) >> (4 * (part & 1));
  const int shift = 4 * (part >> 1);
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    std::uint32_t four = (k == 0 ? codes.x : codes.y) >> shift & 0x0F0F0F0F;
    if constexpr (kFive) four |= (high << (4 - k)) & 0x10101010;
    if constexpr (F == kQ6_K) four |= (high << (4 - 2 * k)) & 0x30303030;
#pragma unroll
    for (int i = 0; i < 4; ++i) w[4 * k + i] = code_float<kOffset>(four, i);
  }
}

// As codes_of(), for formats whose codes index a table.
template <QuantFormat F>
__device__ inline void values_of(const SoaView& v, const RowOf& at, int unit, int part,
                                 float (&w)[8]) {
  const uint2 codes = load_as<uint2>(v.codes + at.by_row(unit) * 16 + 8 * (part & 1));
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const uint2 values = codebook_values<F>(k == 0 ? codes.x : codes.y);
    const std::uint32_t four = part < 2 ? values.x : values.y;
#pragma unroll
    for (int i = 0; i < 4; ++i) w[4 * k + i] = float(std::int8_t(four >> (8 * i) & 0xFF));
  }
}

// As codes_of(), for Q2_K and Q3_K.
template <QuantFormat F>
__device__ inline void low_codes_of(const SoaView& v, const RowOf& at, int unit, int part,
                                    float (&w)[8]) {
  constexpr bool kThree = F == QuantFormat::kQ3_K;
  const std::uint32_t codes =
      load_as<std::uint32_t>(v.codes + at.by_row(unit) * 8 + 4 * (part >> 1)) >> (4 * (part & 1));
  std::uint32_t high = 0;
  if constexpr (kThree) high = load_as<std::uint32_t>(v.high + at.by_four(unit) * 4) >> (2 * part);
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    std::uint32_t four = codes >> (2 * k) & 0x03030303;
    if constexpr (kThree) four |= (high << (2 - k)) & 0x04040404;
#pragma unroll
    for (int i = 0; i < 4; ++i) w[4 * k + i] = code_float < kThree ? 4 : 0 > (four, i);
  }
}

template <QuantFormat F>
__device__ inline void decode_floats(const SoaView& v, std::int64_t at, float (&w)[8]) {
  if constexpr (F == QuantFormat::kF32) {
    const float4 a = load_as<float4>(v.codes + at * 4), b = load_as<float4>(v.codes + at * 4 + 16);
    w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w;
    w[4] = b.x, w[5] = b.y, w[6] = b.z, w[7] = b.w;
  } else {
    const uint4 a = load_as<uint4>(v.codes + at * 2);
    const std::uint32_t words[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t bits = words[i / 2] >> (16 * (i % 2)) & 0xFFFF;
      w[i] = F == QuantFormat::kF16 ? half_bits(bits) : __uint_as_float(bits << 16);
    }
  }
}

template <QuantFormat F>
__device__ inline void decode_whole(const SoaView& v, const RowOf& at, int unit, int part,
                                    float (&w)[8]) {
  using Body = BodyOf<F>;
  const RowOf blocks{at.row, at.units / Body::kUnits};
  const int block = unit / Body::kUnits, s = unit % Body::kUnits;
  const auto* const body =
      reinterpret_cast<const std::uint32_t*>(v.codes + blocks.by_row(block) * Body::kBytes);
  const float d = block_scale<F>(body, v.scales + blocks.by_four(block) * 2);
  const float scale = d * scale_of_half<F>(body, s, part / 2);
  const uint2 eight = eight_of<F>(body, s, part);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    w[i] = scale * float(std::int8_t((i < 4 ? eight.x : eight.y) >> (8 * (i % 4)) & 0xFF));
}

/// Weights [column, column + 8) of a row; `column` a multiple of 8.
template <QuantFormat F>
__device__ inline void decode_eight(const SoaView& v, const RowOf& at, int column, float (&w)[8]) {
  using enum QuantFormat;
  const int unit = column / 32, part = column % 32 / 8;
  if constexpr (F == kF32 || F == kF16 || F == kBF16) {
    decode_floats<F>(v, at.row * at.units * 32 + column, w);
  } else if constexpr (kWholeBlocks<F>) {
    decode_whole<F>(v, at, unit, part, w);
  } else if constexpr (F == kQ8_0) {
    const uint2 codes = load_as<uint2>(v.codes + at.by_row(unit) * 32 + 8 * part);
    const float d = half_bits(load_as<std::uint16_t>(v.scales + at.by_four(unit) * 2));
#pragma unroll
    for (int i = 0; i < 8; ++i)
      w[i] = d * float(std::int8_t((i < 4 ? codes.x : codes.y) >> (8 * (i % 4)) & 0xFF));
  } else if constexpr (F == kQ4_0 || F == kQ5_0 || F == kIQ4_NL) {
    if constexpr (F == kIQ4_NL)
      values_of<F>(v, at, unit, part, w);
    else
      codes_of<F>(v, at, unit, part, w);
    const float d = half_bits(load_as<std::uint16_t>(v.scales + at.by_four(unit) * 2));
    for (float& value : w) value *= d;
  } else if constexpr (F == kQ4_1 || F == kQ5_1) {
    codes_of<F>(v, at, unit, part, w);
    const std::uint32_t dm = load_as<std::uint32_t>(v.scales + at.by_four(unit) * 4);
    for (float& value : w) value = half_bits(dm & 0xFFFF) * value + half_bits(dm >> 16);
  } else if constexpr (F == kQ4_K || F == kQ5_K) {
    codes_of<F>(v, at, unit, part, w);
    const KFields f = k_fields(load_as<uint4>(v.fields + at.by_row(unit) / 8 * 16), unit % 8);
    for (float& value : w) value = f.scale * value - f.min;
  } else if constexpr (F == kQ6_K) {
    codes_of<F>(v, at, unit, part, w);
    const RowOf blocks{at.row, at.units / 8};
    const float d = half_bits(load_as<std::uint16_t>(v.scales + blocks.by_four(unit / 8) * 2));
    const float scale = d * float(load_as<std::int8_t>(v.fields + at.by_four(unit) * 2 + part / 2));
    for (float& value : w) value *= scale;
  } else if constexpr (F == kIQ4_XS) {
    values_of<F>(v, at, unit, part, w);
    const uint2 head = load_as<uint2>(v.fields + at.by_row(unit) / 8 * 8);
    const float scale = iq4_xs_scale(head, unit % 8);
    for (float& value : w) value *= scale;
  } else if constexpr (F == kMXFP4) {
    values_of<F>(v, at, unit, part, w);
    const float scale = mxfp4_scale(v.scales[at.by_four(unit)]);
    for (float& value : w) value *= scale;
  } else if constexpr (F == kQ2_K) {
    low_codes_of<F>(v, at, unit, part, w);
    const RowOf blocks{at.row, at.units / 8};
    const std::uint32_t dm = load_as<std::uint32_t>(v.scales + blocks.by_four(unit / 8) * 4);
    const std::uint32_t f = v.fields[at.by_four(unit) * 2 + part / 2];
    const float scale = half_bits(dm & 0xFFFF) * float(f & 15);
    const float min = half_bits(dm >> 16) * float(f >> 4);
    for (float& value : w) value = scale * value - min;
  } else {
    static_assert(F == kQ3_K);
    low_codes_of<F>(v, at, unit, part, w);
    const std::uint8_t* four = v.scales + (at.row / 4 * (at.units / 8) + unit / 8) * 24;
    const int2 scales = q3_k_scales(v.fields[at.by_four(unit)],
                                    load_as<std::uint32_t>(four + at.row % 4 * 4), unit % 8);
    const float d = half_bits(load_as<std::uint16_t>(four + 16 + at.row % 4 * 2));
    const float scale = d * float(part < 2 ? scales.x : scales.y);
    for (float& value : w) value *= scale;
  }
}

}  // namespace rigcast::engine::cuda
