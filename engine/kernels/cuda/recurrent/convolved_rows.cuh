#pragma once
// What mixers with states of heads share over rows together: the convolution before the states, and
// the norm with its gate behind them.

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/recurrent/mixer_rows.cuh"

namespace rigcast::engine::cuda {

/// Tokens of a convolution, and values of a row of a head's state: those of all published models.
inline constexpr int kMixerTaps = 4, kMixerState = 128;

/// Rows in which each group of neighbouring heads has its query, its key, values and gates side by
/// side, all kMixerState wide.
struct GroupedRow {
  int groups = 0;  // 0: rows have all queries, then all keys, then all values
  int heads = 0;   // of a group

#ifdef __CUDACC__
  __device__ __forceinline__ int unit() const { return (2 + 2 * heads) * kMixerState; }
  /// Where a row has a channel of what is convolved, and where the gates of a head begin.
  __device__ __forceinline__ int channel(int at) const {
    if (groups == 0) return at;
    const int vector = at / kMixerState, element = at % kMixerState;
    if (vector < 2 * groups)
      return vector % groups * unit() + vector / groups * kMixerState + element;
    const int head = vector - 2 * groups;
    return head / heads * unit() + (2 + head % heads) * kMixerState + element;
  }
  __device__ __forceinline__ int gates(int head) const {
    return head / heads * unit() + (2 + heads + head % heads) * kMixerState;
  }
#endif
};

struct ConvolvedRows {
  const float* from = nullptr;  // row r's channels are at from + r * stride
  std::int64_t stride = 0;
  int width = 0;                // channels
  const float* taps = nullptr;  // [width][kMixerTaps], the newest token's last
  const float* bias = nullptr;  // [width]; null: none
  LayerStates last{};           // where the last tokens' rows are kept
  GroupedRow by_group{};        // where rows have their channels
};

/// to[rows][width] = silu(the convolved channels of rows together). The rows before are read, and
/// keep_last() then keeps those of the step; no kernel between them needs what it overwrites.
void convolve_and_silu(const Stream& stream, const ConvolvedRows& convolved, const MixerRows& rows,
                       float* to);
void keep_last(const Stream& stream, const ConvolvedRows& convolved, const MixerRows& rows);

/// The widest group that gated_norm() takes, in values.
inline constexpr int kMaxNormWidth = 8192;

/// out = rms_norm(x) * weight * silu(gate), or the norm of x * silu(gate), of each group of a row.
struct GatedNorm {
  const float* x = nullptr;  // row r is at x + r * x_stride; likewise the gates
  std::int64_t x_stride = 0;
  const float* gates = nullptr;
  std::int64_t gates_stride = 0;
  const float* weight = nullptr;  // null: no norm
  bool one_weight = false;        // of all groups; otherwise each has its own
  bool gates_before = false;      // the norm
  int groups = 0, width = 0;      // values of a group, a multiple of 32 up to kMaxNormWidth
  GroupedRow by_group{};          // where rows have the gates, whose groups are heads
  float eps = 0;
};
void gated_norm(const Stream& stream, const GatedNorm& norm, int rows, const MixerOutputs& out);

}  // namespace rigcast::engine::cuda
