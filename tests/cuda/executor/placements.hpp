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

// The GPU computes these layers with weights that are copied to it.
inline Placement with_streamed(Placement p, const std::vector<int>& layers) {
  for (const int i : layers) {
    LayerPlacement& l = p.layers[std::size_t(i)];
    l = {0, 0, 0, 0, 0, 0, 0};
    l.weights = l.experts = kHost;
  }
  return p;
}

struct NamedPlacement {
  const char* name;
  Placement placement;
};

/// Every kind of placement of a model of at least three layers whose parts stay where they are.
inline std::vector<NamedPlacement> kinds_of_placement(const TinyTraits& t) {
  const int all = t.layers + 1;
  Placement first = split(t, all - 2);
  first.head = first.head_on = 0;
  std::vector<NamedPlacement> cases{
      {"all on the GPU", split(t, all)},
      {"the first layer on the host", first},
      {"the head on the host", split(t, all - 1)},
      {"half of the layers on the host", split(t, t.layers / 2)},
      {"all on the host", split(t, 0)},
      {"caches on the host", with_host_cache(split(t, all))},
      {"one layer and all caches on the host", with_host_cache(split(t, t.layers - 1))}};
  // A layer in the middle alone.
  Placement middle = split(t, all);
  middle.layers[1] = {};
  cases.push_back({"a layer in the middle on the host", middle});
  if (t.experts > 0) {
    cases.push_back({"experts on the host", with_host_experts(split(t, all), t.layers)});
    cases.push_back({"experts of one layer on the host", with_host_experts(split(t, all), 1)});
  }
  return cases;
}

inline ExecutorOptions shared_by(const Placement& placement) {
  ExecutorOptions options;
  options.placement = placement;
  options.threads = 2;
  return options;
}

}  // namespace rigcast::engine::fixtures
