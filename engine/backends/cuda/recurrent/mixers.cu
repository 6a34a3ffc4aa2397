#include "engine/backends/cuda/recurrent/mixers.cuh"

#include <algorithm>

#include "engine/kernels/cuda/recurrent/delta_net.cuh"
#include "engine/kernels/cuda/recurrent/mamba.cuh"
#include "engine/kernels/cuda/recurrent/short_convolution.cuh"

namespace rigcast::engine::cuda {
namespace {

bool has(const DeviceLayer& layer, FusedBlock block) {
  return std::ranges::find(layer.blocks, block) != layer.blocks.end();
}

ShortConvolution short_convolution(const DeviceLayer& w, const MixerInputs& in) {
  return {in.mixed, w.mixer_taps, int(w.mixer_out.columns), int(w.mixer.conv_kernel), in.states};
}

// What mixers with states of heads have in common.
template <class HeadMixer>
HeadMixer of_heads(const DeviceLayer& w, const MixerInputs& in) {
  HeadMixer m;
  m.mixed = in.mixed;
  m.stride = mixed_width(w);
  m.taps = w.mixer_taps;
  m.time_bias = w.mixer_time_bias;
  m.decay = w.mixer_decay;
  m.norm = w.mixer_norm;
  m.heads = int(w.mixer.time_step_rank);
  m.groups = int(w.mixer.group_count);
  m.eps = in.norm_eps;
  m.states = in.states;
  return m;
}

DeltaNet delta_net(const DeviceLayer& w, const MixerInputs& in) {
  DeltaNet m = of_heads<DeltaNet>(w, in);
  m.grouped = w.grouped_heads;
  m.gates_by_group = w.grouped_gates;
  return m;
}

Mamba mamba(const DeviceLayer& w, const MixerInputs& in) {
  Mamba m = of_heads<Mamba>(w, in);
  m.taps_bias = w.mixer_taps_bias;
  m.skip = w.mixer_skip;
  m.head = int(w.mixer.inner_size) / m.heads;
  return m;
}

}  // namespace

void mix_apart(const Stream& stream, const DeviceLayer& layer, const MixerInputs& inputs,
               const MixerRows& rows, const MixerOutputs& out) {
  if (rows.rows < 1) return;
  if (has(layer, FusedBlock::kShortConvolution))
    convolve_apart(stream, short_convolution(layer, inputs), rows, out);
  else if (has(layer, FusedBlock::kMamba))
    mamba_apart(stream, mamba(layer, inputs), rows, inputs.convolved, out);
  else
    delta_net_apart(stream, delta_net(layer, inputs), rows, out);
}

void mix_together(const Stream& stream, const DeviceLayer& layer, const MixerInputs& inputs,
                  const MixerRows& rows, const MixerOutputs& out) {
  if (rows.rows < 1) return;
  if (has(layer, FusedBlock::kShortConvolution))
    convolve_together(stream, short_convolution(layer, inputs), rows, out);
  else if (has(layer, FusedBlock::kMamba))
    mamba_together(stream, mamba(layer, inputs), rows, inputs.convolved, out);
  else
    delta_net_together(stream, delta_net(layer, inputs), rows, inputs.convolved, out);
}

}  // namespace rigcast::engine::cuda
