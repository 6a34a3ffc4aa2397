#pragma once
// Placements of a tiny model on GPU and host.

#include <vector>

#include "core/scenario/placement.hpp"
#include "engine/backends/cuda/make_cuda_executor.hpp"
#include "tests/engine/tiny_model.hpp"

namespace rigcast::engine::fixtures {

// The last `gpu_layers` of layers + 1 on the GPU, the head being the last of all.
inline Placement split(const TinyTraits& t, int gpu_layers) {
  Placement p;
  p.gpu_layers = gpu_layers;
  for (int i = 0; i < t.layers; ++i) {
    const DeviceIndex device = i >= t.layers - gpu_layers ? 0 : kHost;
    p.layers.push_back({device, device, device, device, device, device, device});
  }
  if (gpu_layers > t.layers) p.head = p.head_on = 0;
  return p;
}

inline Placement with_host_cache(Placement p) {
  for (LayerPlacement& l : p.layers) l.kv = l.decode_cache_on = kHost;
  return p;
}

inline Placement with_host_experts(Placement p, int layers) {
  for (int i = 0; i < layers; ++i) {
    LayerPlacement& l = p.layers[std::size_t(i)];
    l.experts = l.decode_experts_on = kHost;
  }
  return p;
}

// Prompts as placed by `p`, tokens on the host.
inline Placement with_host_decode(Placement p) {
  for (LayerPlacement& l : p.layers)
    l.decode_on = l.decode_experts_on = l.decode_cache_on = l.kv = kHost;
  p.head_on = kHost;
  return p;
}

inline ExecutorOptions shared_by(const Placement& placement) {
  ExecutorOptions options;
  options.placement = placement;
  options.threads = 2;
  return options;
}

}  // namespace rigcast::engine::fixtures
