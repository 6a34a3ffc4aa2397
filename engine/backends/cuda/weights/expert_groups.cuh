#pragma once
// Which experts a GPU multiplies in groups: all tokens of a batch that chose an expert at once.

#include "engine/backends/cuda/weights/device_model.cuh"
#include "engine/kernels/cuda/batch/short_batch.cuh"

namespace rigcast::engine::cuda {

/// Whether the experts of a layer, which may be a Layer or a DeviceLayer, are in formats that go in
/// groups.
template <class AnyLayer>
bool takes_groups(const AnyLayer& layer) {
  return takes_short_batch(layer.expert_gate.first.format) &&
         takes_short_batch(layer.expert_up.first.format) &&
         takes_short_batch(layer.expert_down.first.format);
}

/// Whether the current GPU multiplies the layer's experts so; false: token by token.
inline bool groups_experts(const DeviceLayer& layer) {
  return has_short_batch() && takes_groups(layer);
}

}  // namespace rigcast::engine::cuda
