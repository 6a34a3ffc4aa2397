#pragma once
// Formats whose blocks stay whole in GPU memory: IQ1, IQ2 and IQ3, whose indices stand for points
// of grids, TQ1_0, TQ2_0 and NVFP4. A block's body is what it has besides a scale in F16, as in a
// file.

#include "engine/kernels/cuda/weights/gguf_blocks.cuh"

namespace rigcast::engine::cuda {

constexpr bool stays_whole(QuantFormat f) {
  return f >= QuantFormat::kIQ1_S && f <= QuantFormat::kNVFP4;
}
template <QuantFormat F>
inline constexpr bool kWholeBlocks = stays_whole(F);

/// Where a block's own scale in F16 is; -1 if there is none apart from the body.
constexpr int scale_at(QuantFormat f) {
  using enum QuantFormat;
  return f == kIQ1_M || f == kNVFP4 ? -1 : f == kTQ1_0 ? 52 : f == kTQ2_0 ? 64 : 0;
}

/// The bytes of a body, a multiple of 4.
constexpr int body_bytes(QuantFormat f) {
  return int(info(f).block_bytes) - (scale_at(f) < 0 ? 0 : 2);
}
template <QuantFormat F>
struct BodyOf {
  static constexpr bool kHasScale = scale_at(F) >= 0;
  static constexpr int kBytes = body_bytes(F), kWords = kBytes / 4;
  static constexpr int kScaleAt = scale_at(F);          // in the file's block, as is
  static constexpr int kFirst = kScaleAt == 0 ? 2 : 0;  // where the body begins
  static constexpr int kUnits = BlockOf<F>::kWeights / 32;
  /// Every body begins at a multiple of this.
  static constexpr int kAligned = kBytes % 16 == 0 ? 16 : kBytes % 8 == 0 ? 8 : 4;
  static_assert(kBytes % 4 == 0);
};

}  // namespace rigcast::engine::cuda
