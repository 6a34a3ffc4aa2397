#pragma once
// Mamba 2: a convolution, states of heads that decay and take values by keys, a gate, and perhaps a
// norm of groups.

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/recurrent/mixer_rows.cuh"

namespace rigcast::engine::cuda {

/// The most values of a head: each has a row of its state in a thread block.
inline constexpr int kMaxMambaHead = 128;

struct Mamba {
  /// Row r is at mixed + r * stride: gates of heads; values of heads, keys and queries of groups,
  /// which are convolved; a time step of each head.
  const float* mixed = nullptr;
  std::int64_t stride = 0;
  const float* taps = nullptr;       // [channel][kMixerTaps], the newest token's last
  const float* taps_bias = nullptr;  // [channel]
  const float* time_bias = nullptr;  // by head; likewise below
  const float* decay = nullptr;
  const float* skip = nullptr;
  const float* norm = nullptr;  // [heads][head]; null: none
  int heads = 0, groups = 0;    // neighbouring heads share keys and queries
  int head = 0;                 // values of a head, up to kMaxMambaHead
  float eps = 0;
  LayerStates states{};  // of heads: [value][kMixerState]
};

/// Of rows apart. `values`: room for the heads' values of all rows.
void mamba_apart(const Stream& stream, const Mamba& mixer, const MixerRows& rows, float* values,
                 const MixerOutputs& out);
/// Of rows together. `convolved`: room for the convolved channels of all rows.
void mamba_together(const Stream& stream, const Mamba& mixer, const MixerRows& rows,
                    float* convolved, const MixerOutputs& out);

}  // namespace rigcast::engine::cuda
