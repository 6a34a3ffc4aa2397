#pragma once
// Device code: the dot product of one lane, for formats whose blocks stay whole; see lane_dot.cuh.

#include "engine/kernels/cuda/matvec/lane_rows.cuh"
#include "engine/kernels/cuda/weights/grid_blocks.cuh"

namespace rigcast::engine::cuda {

/// IQ1, IQ2, IQ3, TQ1_0, TQ2_0, NVFP4: one unit of 32 weights per lane.
template <QuantFormat F, int kRows>
struct BlockDot {
  static constexpr int kColumns = 32;
  using X = Quantized32;
  using Body = BodyOf<F>;
  static constexpr int kBlocks = 32 / Body::kUnits;  // of a step
  static constexpr int kStepBytes = kBlocks * Body::kBytes;
  static constexpr int kCopy = Body::kAligned, kCopies = kStepBytes / kCopy;

  struct Stage {
    alignas(16) std::uint32_t bodies[kRows][kStepBytes / 4];
    Pack<__half, kRows> scales[Body::kHasScale ? kBlocks : 1];
  };

  // The bodies of a step are copied by all lanes, whatever columns they multiply.
  struct Source {
    RowsCursor<kRows> bodies;
    const std::uint8_t* scales;
    int left;  // bytes from where the lane copies to the end of the row
    __device__ Source(const RowGroup& g, int unit)
        : bodies(g, g.view.codes, g.units() / Body::kUnits * Body::kBytes, first_byte(unit)),
          scales(g.view.scales),
          left(int(g.units()) / Body::kUnits * Body::kBytes - first_byte(unit)) {
      if constexpr (Body::kHasScale)
        scales = by_four(g, g.view.scales, g.units() / Body::kUnits, unit / Body::kUnits, 2);
    }
    __device__ static int first_byte(int unit) {
      return unit / 32 * kStepBytes + unit % 32 * kCopy;
    }
    __device__ __forceinline__ void fetch(Stage& s, int lane) const {
      if constexpr (Body::kHasScale)
        if (lane % Body::kUnits == 0) copy_pack_async(s.scales[lane / Body::kUnits], scales);
    }
    // Called by all lanes, including those past the last column.
    __device__ __forceinline__ void fetch_heads(Stage& s, int lane) const {
#pragma unroll
      for (int k = 0; k < (kCopies + 31) / 32; ++k) {
        if (k * 32 + lane >= kCopies || k * 32 * kCopy >= left) break;
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          copy_async<kCopy>(&s.bodies[r][(k * 32 + lane) * (kCopy / 4)],
                            bodies.at[r] + k * 32 * kCopy);
      }
    }
    __device__ __forceinline__ void advance() {
      bodies.advance(kStepBytes);
      left -= kStepBytes;
      if constexpr (Body::kHasScale) scales += kBlocks * 8;
    }
  };

  __device__ static void add(const Stage& s, const RowGroup&, int, int lane, const X& x,
                             float (&sum)[kRows]) {
    const int block = lane / Body::kUnits, unit = lane % Body::kUnits;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::uint32_t* const body = s.bodies[r] + block * Body::kWords;
      HalfDots d;
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const uint2 w = eight_of<F>(body, unit, part);
        int& dot = part < 2 ? d.low : d.high;
        dot = dot_ss(w.y, x.q[2 * part + 1], dot_ss(w.x, x.q[2 * part], dot));
      }
      const float both = scale_of_half<F>(body, unit, 0) * float(d.low) +
                         scale_of_half<F>(body, unit, 1) * float(d.high);
      const void* const own = &s.scales[Body::kHasScale ? block : 0].row[r];
      sum[r] = fmaf(block_scale<F>(body, own), x.scale * both, sum[r]);
    }
  }
};

}  // namespace rigcast::engine::cuda
