#pragma once
// A gated delta net: a convolution, states of heads, of which each token replaces a part, and a
// gated norm of what queries see of them.

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/recurrent/mixer_rows.cuh"

namespace rigcast::engine::cuda {

/// States of heads are [value][key], kMixerState of each.
struct DeltaNet {
  /// Row r is at mixed + r * stride: queries and keys of groups and values of heads, which are
  /// convolved; gates of heads; alpha and beta of each head.
  const float* mixed = nullptr;
  std::int64_t stride = 0;
  const float* taps = nullptr;  // [channel][kMixerTaps], the newest token's last
  const float* time_bias = nullptr;
  const float* decay = nullptr;
  const float* norm = nullptr;  // [kMixerState]
  int heads = 0, groups = 0;    // head h has queries and keys of group h % groups
  float eps = 0;
  LayerStates states{};
};

/// Of rows apart, by one kernel.
void delta_net_apart(const Stream& stream, const DeltaNet& mixer, const MixerRows& rows,
                     const MixerOutputs& out);
/// Of rows together. `convolved`: room for the convolved channels of all rows.
void delta_net_together(const Stream& stream, const DeltaNet& mixer, const MixerRows& rows,
                        float* convolved, const MixerOutputs& out);

}  // namespace rigcast::engine::cuda
