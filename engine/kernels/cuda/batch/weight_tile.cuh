#pragma once
// Device code: a warp's 32 rows of 128 columns of weights, in shared memory in
// soa_layout.cuh's layout, and their conversion to F16 for tensor cores.

#include <cuda_fp16.h>

#include "engine/kernels/cuda/batch/half_mma.cuh"
#include "engine/kernels/cuda/matvec/lane_loads.cuh"
#include "engine/kernels/cuda/weights/gguf_blocks.cuh"
#include "engine/kernels/cuda/weights/soa_layout.cuh"

namespace rigcast::engine::cuda {

inline constexpr int kTileRows = 32;
inline constexpr int kTileUnits = 4;  // of 32 columns

/// Rows [row, row + 32) of a matrix; `row` is a multiple of 32. Rows past the last repeat the last
/// one, or are its padding to four rows; their products are discarded.
struct TileRows {
  SoaView view;
  std::uint32_t row = 0, rows = 0;
  std::uint32_t units = 0;  // units of a row; the units of all rows fit 32 bits

  __device__ __forceinline__ std::uint32_t row_at(int i) const {
    return min(row + unsigned(i), rows - 1);
  }
  // Part `part` of `parts` in an array that interleaves four rows, with `bytes` bytes for each row.
  __device__ __forceinline__ const std::uint8_t* of_four(const std::uint8_t* field, int four,
                                                         int part, std::uint32_t parts,
                                                         unsigned bytes) const {
    const std::uint32_t at = min(row / 4 + unsigned(four), (rows - 1) / 4);
    return field + std::size_t(at * parts + unsigned(part)) * (4 * bytes);
  }
};

/// Factor and summand of 32 columns of a row, each as a pair of equal F16 values. Q6_K and Q3_K:
/// the factors of both halves. Q2_K: for both halves the factor, then the summand.
struct alignas(8) UnitScales {
  __half2 first, second;
};

template <QuantFormat F>
struct WeightTile {
  using enum QuantFormat;
  static constexpr bool kEight = F == kQ8_0, kSix = F == kQ6_K;
  static constexpr bool kFive = F == kQ5_0 || F == kQ5_1 || F == kQ5_K;
  static constexpr bool kTwo = F == kQ2_K, kThree = F == kQ3_K, kLow = kTwo || kThree;
  static constexpr bool kHalves = kSix || kLow;  // 16 columns have a scale
  static constexpr bool kBlocks256 = F == kQ4_K || F == kQ5_K;
  static constexpr bool kTable = kCodebookWeights<F>, kTable256 = F == kIQ4_XS;
  static constexpr bool kBytewise = F == kMXFP4;            // of scales
  static constexpr bool kPairs = F == kQ4_1 || F == kQ5_1;  // scale and min, for both halves
  static constexpr bool kMins = kBlocks256 || kPairs || kTwo;
  // The code that stands for 0. Codes of Q8_0, and values of a table, are stored plus 128.
  static constexpr bool kInt8 = kEight || kTable;
  static constexpr int kZero = F == kQ4_0   ? 8
                               : F == kQ5_0 ? 16
                               : kSix       ? 32
                               : kThree     ? 4
                               : kInt8      ? 128
                                            : 0;

  // Sizes of the parts of a stage.
  static constexpr int kChunks = kEight ? 8 : kLow ? 2 : 4;  // chunks of 16 bytes of a row's codes
  static constexpr int kCodes = kTileRows * kChunks * 16;
  static constexpr int kHigh = kSix ? 1024 : kFive || kThree ? 512 : 0;
  static constexpr int kFields = kBlocks256                  ? 512
                                 : kSix || kTwo || kTable256 ? 256
                                 : kThree                    ? 128
                                                             : 0;
  static constexpr int kBlockBytes = kSix     ? 8
                                     : kTwo   ? 16
                                     : kThree ? 24
                                              : 0;  // bytes of the blocks of four rows
  static constexpr int kOfFour = kHalves     ? kTileRows / 4 * kBlockBytes
                                 : kBytewise ? 128
                                 : kPairs    ? 512
                                             : 256;
  static constexpr int kScales = kBlocks256 || kTable256 ? 0 : kOfFour;
  static constexpr int kHighAt = kCodes, kFieldsAt = kHighAt + kHigh;
  static constexpr int kScalesAt = kFieldsAt + kFields;
  static constexpr int kBytes = kScalesAt + kScales;

  // The layout puts rows that are loaded together into different banks.
  __device__ static __forceinline__ int code_at(int row, int chunk) {
    const int mixed = kEight ? chunk ^ (row & 7)
                      : kLow ? chunk ^ (row >> 2 & 1)
                             : chunk ^ (row >> 1 & 3);
    return (row * kChunks + mixed) * 16;
  }

  /// Starts the copies of units [unit, unit + 4), as far as they exist.
  __device__ static void fetch(std::byte* stage, const TileRows& t, int unit, int lane) {
    constexpr int kUnitBytes = kEight ? 32 : kLow ? 8 : 16, kRowsAtOnce = 32 / kChunks;
    const int left = int(t.units) - unit;
    const int chunk = lane % kChunks;
    if (chunk * 16 / kUnitBytes < left) {
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const int row = i * kRowsAtOnce + lane / kChunks;
        copy_async<16>(stage + code_at(row, chunk),
                       t.view.codes +
                           std::size_t(t.row_at(row) * t.units + unsigned(unit)) * kUnitBytes +
                           chunk * 16);
      }
    }
    if constexpr (kBlocks256)
      copy_async<16>(
          stage + kFieldsAt + lane * 16,
          t.view.fields + std::size_t(t.row_at(lane) * (t.units / 8) + unsigned(unit) / 8) * 16);
    if constexpr (kTable256)
      copy_async<8>(
          stage + kFieldsAt + lane * 8,
          t.view.fields + std::size_t(t.row_at(lane) * (t.units / 8) + unsigned(unit) / 8) * 8);
    if constexpr (kSix) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = i * 16 + lane / 2, half = lane % 2;
        copy_async<16>(
            stage + kHighAt + row * 32 + half * 16,
            t.view.high + std::size_t(t.row_at(row) * t.units + unsigned(unit)) * 8 + half * 16);
      }
    }
    if constexpr (kHalves) {
      constexpr int kParts = kBlockBytes / 8;
      if (lane < 8 * kParts)
        copy_async<8>(stage + kScalesAt + lane * 8,
                      t.of_four(t.view.scales, lane / kParts, unit / 8, t.units / 8,
                                unsigned(kBlockBytes) / 4) +
                          lane % kParts * 8);
    }
    // Each lane copies four rows of a unit.
    if (lane % 4 >= left) return;
    const auto of_four = [&](const std::uint8_t* field, unsigned bytes) {
      return t.of_four(field, lane / 4, unit + lane % 4, t.units, bytes);
    };
    if constexpr (kSix || kTwo)
      copy_async<8>(stage + kFieldsAt + lane * 8, of_four(t.view.fields, 2));
    if constexpr (kThree) copy_async<4>(stage + kFieldsAt + lane * 4, of_four(t.view.fields, 1));
    if constexpr (kFive || kThree)
      copy_async<16>(stage + kHighAt + lane * 16, of_four(t.view.high, 4));
    if constexpr (kPairs) copy_async<16>(stage + kScalesAt + lane * 16, of_four(t.view.scales, 4));
    if constexpr (kBytewise) copy_async<4>(stage + kScalesAt + lane * 4, of_four(t.view.scales, 1));
    if constexpr (!kPairs && !kHalves && !kBlocks256 && !kTable256 && !kBytewise)
      copy_async<8>(stage + kScalesAt + lane * 8, of_four(t.view.scales, 2));
  }

  /// Decodes the scales of row `lane` to scales[unit][row]; 0 where the row has no such unit.
  __device__ static void decode(const std::byte* stage, int unit, int units, int lane,
                                UnitScales (*scales)[kTileRows]) {
    const auto at = [&](int part, int bytes) { return stage + part + lane * bytes; };
    if constexpr (kBlocks256) {
      const uint4 head = *reinterpret_cast<const uint4*>(at(kFieldsAt, 16));
      const float d = half_bits(head.x & 0xFFFF), m = -half_bits(head.x >> 16);
      // The head holds 48 bits for four units, 12 bits each.
      const bool second = unit % 8 != 0;
      const std::uint32_t low = second ? __funnelshift_r(head.z, head.w, 16) : head.y;
      const std::uint32_t high = second ? head.w >> 16 : head.z;
#pragma unroll
      for (int u = 0; u < kTileUnits; ++u) {
        const std::uint32_t f = u < 3 ? __funnelshift_r(low, high, 12 * u) : high >> 4;
        scales[u][lane] = {__float2half2_rn(d * float(f & 63)),
                           __float2half2_rn(m * float(f >> 6 & 63))};
      }
    } else if constexpr (kTable256) {
      const uint2 head = *reinterpret_cast<const uint2*>(at(kFieldsAt, 8));
#pragma unroll
      for (int u = 0; u < kTileUnits; ++u)
        scales[u][lane] = {__float2half2_rn(iq4_xs_scale(head, unit % 8 + u)), {}};
    } else {
#pragma unroll
      for (int u = 0; u < kTileUnits; ++u) {
        const int i = (lane / 4 * 4 + u) * 4 + lane % 4;
        scales[u][lane] = unit + u < units ? scales_at(stage, i, lane, unit % 8 + u) : UnitScales{};
      }
    }
  }

  /// Loads the weights of unit `u`, for rows 0 to 15 and 16 to 31, in columns 4 t to 4 t + 3 of its
  /// first 16 and of its last 16.
  __device__ static __forceinline__ void load(const std::byte* stage, int, int u, int lane,
                                              const UnitScales (*scales)[kTileRows],
                                              Fp16Weights (&out)[2][2]) {
    std::uint32_t word[4], more[4];
    if constexpr (!kLow) load_tiles(word, stage + code_at(lane, kEight ? 2 * u : u));
    if constexpr (kEight) load_tiles(more, stage + code_at(lane, 2 * u + 1));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 8 * i + lane / 4;
      const UnitScales s = scales[u][row];
      uint2 codes;
      if constexpr (kEight) {
        codes = {word[i] ^ 0x80808080, more[i] ^ 0x80808080};  // 128 more
      } else if constexpr (kTable) {
        const uint2 values = codebook_values<F>(word[i]);
        codes = {values.x ^ 0x80808080, values.y ^ 0x80808080};  // 128 more
      } else if constexpr (kLow) {
        codes = low_codes(stage, row, u, lane % 4);
      } else {
        const uint2 high = high_bits(stage, row, u, lane % 4);
        codes = {(word[i] & 0x0F0F0F0F) | high.x, (word[i] >> 4 & 0x0F0F0F0F) | high.y};
      }
      Fp16Weights(&to)[2] = out[i / 2];
      const auto put_half = [&](int half, std::uint32_t four, __half2 scale, __half2 min) {
        put(four, scale, min, to[half].word[i % 2], to[half].word[2 + i % 2]);
      };
      if constexpr (kTwo) {
        put_half(0, codes.x, __low2half2(s.first), __low2half2(s.second));
        put_half(1, codes.y, __high2half2(s.first), __high2half2(s.second));
      } else {
        put_half(0, codes.x, s.first, s.second);
        put_half(1, codes.y, kHalves ? s.second : s.first, s.second);
      }
    }
  }

 private:
  // Converts four codes to weights.
  __device__ static __forceinline__ void put(std::uint32_t codes, __half2 scale, __half2 min,
                                             std::uint32_t& low, std::uint32_t& high) {
    dequantize_bytes(codes, low, high);
    const __half2 zero = __float2half2_rn(1024.0f + kZero);
    const auto weights = [&](std::uint32_t dequantized) {
      const __half2 code = __hsub2(pair_of(dequantized), zero);
      return word_of_pair(kMins ? __hfma2(code, scale, min) : __hmul2(code, scale));
    };
    low = weights(low), high = weights(high);
  }

  // `i`: the index of unit and row in arrays that interleave four rows; `s`: the index of the unit
  // in its block.
  __device__ static __forceinline__ UnitScales scales_at(const std::byte* stage, int i, int row,
                                                         int s) {
    if constexpr (kPairs) {
      const __half2 pair = reinterpret_cast<const __half2*>(stage + kScalesAt)[i];
      return {__low2half2(pair), __high2half2(pair)};
    } else if constexpr (kSix) {
      const std::uint32_t f = reinterpret_cast<const std::uint16_t*>(stage + kFieldsAt)[i];
      const float d = __half2float(reinterpret_cast<const __half*>(stage + kScalesAt)[row]);
      return {__float2half2_rn(d * float(std::int8_t(f & 0xFF))),
              __float2half2_rn(d * float(std::int8_t(f >> 8)))};
    } else if constexpr (kTwo) {
      const std::uint32_t f = reinterpret_cast<const std::uint16_t*>(stage + kFieldsAt)[i];
      const float2 dm = __half22float2(reinterpret_cast<const __half2*>(stage + kScalesAt)[row]);
      return {__floats2half2_rn(dm.x * float(f & 15), dm.x * float(f >> 8 & 15)),
              __floats2half2_rn(-dm.y * float(f >> 4 & 15), -dm.y * float(f >> 12))};
    } else if constexpr (kThree) {
      const std::byte* const four = stage + kScalesAt + row / 4 * kBlockBytes;
      const int2 by = q3_k_scales(std::uint32_t(stage[kFieldsAt + i]),
                                  reinterpret_cast<const std::uint32_t*>(four)[row % 4], s);
      const float d = __half2float(reinterpret_cast<const __half*>(four + 16)[row % 4]);
      return {__float2half2_rn(d * float(by.x)), __float2half2_rn(d * float(by.y))};
    } else if constexpr (kBytewise) {
      // F16 scales end at 2^15; below 2^-24 all weights of the unit become 0.
      const auto e = reinterpret_cast<const std::uint8_t*>(stage + kScalesAt)[i];
      return {__float2half2_rn(fminf(mxfp4_scale(e), 32768.0f)), {}};
    } else {
      return {__half2half2(reinterpret_cast<const __half*>(stage + kScalesAt)[i]), {}};
    }
  }

  // Word t of each half, for Q2_K and Q3_K.
  __device__ static __forceinline__ uint2 low_codes(const std::byte* stage, int row, int u, int t) {
    const uint2 bits = *reinterpret_cast<const uint2*>(stage + code_at(row, u / 2) + u % 2 * 8);
    uint2 codes = {bits.x >> 2 * t & 0x03030303, bits.y >> 2 * t & 0x03030303};
    if constexpr (kThree) {
      const auto* words = reinterpret_cast<const std::uint32_t*>(stage + kHighAt);
      const std::uint32_t high = words[(row / 4 * 4 + u) * 4 + row % 4] >> t;
      codes.x |= high << 2 & 0x04040404, codes.y |= high >> 2 & 0x04040404;
    }
    return codes;
  }

  // The bits above the nibbles of word t of each half.
  __device__ static __forceinline__ uint2 high_bits(const std::byte* stage, int row, int u, int t) {
    if constexpr (kFive) {
      const auto* words = reinterpret_cast<const std::uint32_t*>(stage + kHighAt);
      const std::uint32_t bits = words[(row / 4 * 4 + u) * 4 + row % 4] >> t;
      return {bits << 4 & 0x10101010, bits & 0x10101010};
    } else if constexpr (kSix) {
      const uint2 bits = reinterpret_cast<const uint2*>(stage + kHighAt)[row * 4 + u];
      return {(bits.x >> 2 * t & 0x03030303) << 4, (bits.y >> 2 * t & 0x03030303) << 4};
    } else {
      return {};
    }
  }
};

}  // namespace rigcast::engine::cuda
