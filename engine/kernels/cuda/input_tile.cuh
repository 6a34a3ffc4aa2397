#pragma once
// Device code: 128 columns of some tokens' rounded activations in shared memory.

#include "engine/kernels/cuda/lane_loads.cuh"
#include "engine/kernels/cuda/matrix.cuh"
#include "engine/kernels/cuda/weight_tile.cuh"

namespace rigcast::engine::cuda {

/// kTokens: a multiple of 16. kSums: whether sums of activations are wanted.
template <int kTokens, bool kSums>
struct InputTile {
  static constexpr int kScalesAt = kTokens * 128;
  static constexpr int kSumsAt = kScalesAt + kTokens * kTileUnits * 4;
  static constexpr int kBytes = kSumsAt + (kSums ? kTokens * kTileUnits * 8 : 0);

  __device__ static __forceinline__ int code_at(int token, int chunk) {
    return token * 128 + (chunk ^ (token & 7)) * 16;
  }

  /// Begins the copies of units [unit, unit + 4) of rows[token], tokens below `count`, by `threads`
  /// threads. Units that do not exist have scale 0.
  __device__ static void fetch(std::byte* stage, const Rounded& x, const int* rows, int count,
                               int units, int unit, int thread, int threads) {
    const int left = units - unit;
    for (int i = thread; i < count * 8; i += threads) {
      const int token = i / 8, chunk = i % 8;
      if (chunk / 2 < left)
        begin_copy<16>(stage + code_at(token, chunk),
                       bytes(x.q) + (std::int64_t(rows[token]) * units + unit) * 32 + chunk * 16);
    }
    auto* const scales = reinterpret_cast<float*>(stage + kScalesAt);
    auto* const sums = reinterpret_cast<float2*>(stage + kSumsAt);
    for (int i = thread; i < count * kTileUnits; i += threads) {
      const int token = i / kTileUnits, u = i % kTileUnits, to = u * kTokens + token;
      const std::int64_t at = std::int64_t(rows[token]) * units + unit + u;
      if (u < left) {
        begin_copy<4>(scales + to, bytes(x.scale + at));
        if constexpr (kSums) begin_copy<8>(sums + to, bytes(x.sum16 + 2 * at));
      } else {
        scales[to] = 0;
        if constexpr (kSums) sums[to] = {};
      }
    }
  }

  /// Words t of both halves of unit `u` of tokens g and 8 + g of the 16 from `token` on.
  __device__ static __forceinline__ void load(const std::byte* stage, int token, int u, int lane,
                                              std::uint32_t (&word)[4]) {
    load_tiles(word, stage + code_at(token + lane / 16 * 8 + lane % 8, 2 * u + lane / 8 % 2));
  }
  /// Of tokens `token`, which is even, and the next one.
  __device__ static __forceinline__ float2 scales(const std::byte* stage, int token, int u) {
    return *reinterpret_cast<const float2*>(stage + kScalesAt + (u * kTokens + token) * 4);
  }
  __device__ static __forceinline__ float2 sums(const std::byte* stage, int token, int u) {
    if constexpr (!kSums) return {};
    const auto halves =
        *reinterpret_cast<const float4*>(stage + kSumsAt + (u * kTokens + token) * 8);
    return {halves.x + halves.y, halves.z + halves.w};
  }

 private:
  template <class T>
  __device__ static const std::uint8_t* bytes(const T* p) {
    return reinterpret_cast<const std::uint8_t*>(p);
  }
};

}  // namespace rigcast::engine::cuda
