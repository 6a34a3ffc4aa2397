#pragma once
// Device code: a warp's tile of weights in formats whose blocks stay whole; see weight_tile.cuh.
// A stage has 128 columns: where a block has 256, its body is copied for either half of it.

#include "engine/kernels/cuda/batch/weight_tile.cuh"
#include "engine/kernels/cuda/weights/grid_blocks.cuh"

namespace rigcast::engine::cuda {

template <QuantFormat F>
requires(kWholeBlocks<F>) struct WeightTile<F> {
  using Body = BodyOf<F>;
  static constexpr int kBlocks = kTileUnits / Body::kUnits > 1 ? kTileUnits / Body::kUnits : 1;
  static constexpr int kRowBytes = kBlocks * Body::kBytes;
  static constexpr int kBodies = kTileRows * kRowBytes;
  static constexpr int kScales = Body::kHasScale ? kTileRows * 2 : 0;
  static constexpr int kScalesAt = kBodies;
  static constexpr int kBytes = (kScalesAt + kScales + 15) / 16 * 16;

  /// Starts the copies of units [unit, unit + 4), as far as they exist.
  __device__ static void fetch(std::byte* stage, const TileRows& t, int unit, int lane) {
    constexpr int kCopy = Body::kAligned, kOfRow = kRowBytes / kCopy;
    const std::uint32_t blocks = t.units / Body::kUnits, block = unsigned(unit) / Body::kUnits;
    const int left = int(blocks - block) * Body::kBytes;
    for (int i = lane; i < kTileRows * kOfRow; i += 32) {
      const int row = i / kOfRow, at = i % kOfRow * kCopy;
      if (at < left)
        copy_async<kCopy>(
            stage + row * kRowBytes + at,
            t.view.codes + std::size_t(t.row_at(row) * blocks + block) * Body::kBytes + at);
    }
    if constexpr (Body::kHasScale)
      if (lane < kTileRows / 4)
        copy_async<8>(stage + kScalesAt + lane * 8,
                      t.of_four(t.view.scales, lane, int(block), blocks, 2));
  }

  /// Decodes the scales of row `lane` to scales[unit][row]; 0 where the row has no such unit.
  __device__ static void decode(const std::byte* stage, int unit, int units, int lane,
                                UnitScales (*scales)[kTileRows]) {
#pragma unroll
    for (int u = 0; u < kTileUnits; ++u) {
      scales[u][lane] = {};
      if (unit + u >= units) continue;
      const std::uint32_t* const body = body_of(stage, lane, u);
      const int s = (unit + u) % Body::kUnits;
      const float d = block_scale<F>(body, stage + kScalesAt + lane * 2);
      scales[u][lane] = {__float2half2_rn(d * scale_of_half<F>(body, s, 0)),
                         __float2half2_rn(d * scale_of_half<F>(body, s, 1))};
    }
  }

  /// Loads the weights of unit `u`, for rows 0 to 15 and 16 to 31, in columns 4 t to 4 t + 3 of its
  /// first 16 and of its last 16. `unit`: the first of the stage.
  __device__ static __forceinline__ void load(const std::byte* stage, int unit, int u, int lane,
                                              const UnitScales (*scales)[kTileRows],
                                              Fp16Weights (&out)[2][2]) {
    const int s = (unit + u) % Body::kUnits, part = lane % 4 / 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 8 * i + lane / 4;
      const UnitScales of = scales[u][row];
      const std::uint32_t* const body = body_of(stage, row, u);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint2 eight = eight_of<F>(body, s, 2 * half + part);
        std::uint32_t(&word)[4] = out[i / 2][half].word;
        put(lane % 2 ? eight.y : eight.x, half ? of.second : of.first, word[i % 2],
            word[2 + i % 2]);
      }
    }
  }

 private:
  __device__ static __forceinline__ const std::uint32_t* body_of(const std::byte* stage, int row,
                                                                 int u) {
    return reinterpret_cast<const std::uint32_t*>(stage + row * kRowBytes +
                                                  u / Body::kUnits * Body::kBytes);
  }
  // Converts four int8 to weights: 128 more of each are bytes without a sign.
  __device__ static __forceinline__ void put(std::uint32_t four, __half2 scale, std::uint32_t& low,
                                             std::uint32_t& high) {
    dequantize_bytes(four ^ 0x80808080, low, high);
    const __half2 zero = __float2half2_rn(1024.0f + 128.0f);
    low = word_of_pair(__hmul2(__hsub2(pair_of(low), zero), scale));
    high = word_of_pair(__hmul2(__hsub2(pair_of(high), zero), scale));
  }
};

}  // namespace rigcast::engine::cuda
