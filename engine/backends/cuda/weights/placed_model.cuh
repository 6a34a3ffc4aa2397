#pragma once
// A model whose weights are in a GPU's memory, in the host's, or in both.

#include <memory>

#include "engine/backends/cuda/weights/device_model.cuh"
#include "engine/memory/ram.hpp"
#include "engine/model/model.hpp"
#include "engine/placement/host_placement.hpp"

namespace rigcast::engine::cuda {

struct PlacedModel {
  std::shared_ptr<const Model> model;  // includes the weights that the host keeps
  HostPlacement host;                  // parts that the host keeps
  DeviceModel gpu;
  RamCharge host_weights;  // charge for the host's weights

  const ModelSpec& spec() const { return model->spec; }
  const Layer& layer(int i) const { return model->layers[std::size_t(i)]; }
  const DeviceLayer& gpu_layer(int i) const { return gpu.layers[std::size_t(i)]; }
  /// True if the layer's FFN is computed only for rows of which logits are wanted: the last one's,
  /// unless it is beside attention.
  bool leaves_out_rows(int i) const {
    return i + 1 == spec().layers && !gpu_layer(i).parallel_ffn;
  }
};

/// The number of values in a token's queries, and in its keys or values, over all heads.
inline int q_width(const AttentionShape& a) { return int(a.q_width()); }
inline int kv_width(const AttentionShape& a) { return int(a.kv_width()); }
/// The number of values in a contiguous row of q, k and v.
inline int qkv_width(const AttentionShape& a) { return q_width(a) + 2 * kv_width(a); }

/// The number of values in a row of a layer's projections: without keys and values, where it
/// attends to another layer's.
inline int projected_width(const AttentionShape& a, const AttentionRule& rule) {
  return rule.kv_layer >= 0 ? q_width(a) : qkv_width(a);
}
/// The layer in whose part of the cache this one finds keys and values.
inline int cached_layer(const AttentionRule& rule, int layer) {
  return rule.kv_layer >= 0 ? rule.kv_layer : layer;
}

/// What attention's kernels take as a window: negative where the context is cut into pieces.
inline int window_of(const AttentionShape& a) { return a.chunked ? -int(a.window) : int(a.window); }

}  // namespace rigcast::engine::cuda
