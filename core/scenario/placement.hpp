#pragma once
// Which tensor lives and computes where. The one vocabulary that planner, simulator and engine
// share for it.

#include <vector>

#include "core/scenario/scenario.hpp"

namespace rigcast {

/// A device is a GPU's index, or the host: CPU and RAM.
using DeviceIndex = int;
inline constexpr DeviceIndex kHost = -1;

struct LayerPlacement {
  DeviceIndex weights = kHost;     // where what stays together lives: LayerWeights::together
  DeviceIndex experts = kHost;     // where routed experts live, or of a dense layer the FFN
  DeviceIndex prefill_on = kHost;  // where the layer's operations run
  DeviceIndex decode_on = kHost;
  DeviceIndex decode_experts_on = kHost;
  DeviceIndex decode_cache_on = kHost;  // where decode's attention over the cache runs
  DeviceIndex kv = kHost;               // where its KV lives, as far as it fits there

  bool operator==(const LayerPlacement&) const = default;
};

struct Placement {
  int gpu_layers = 0;  // as llama.cpp's -ngl: layers + 1 includes the head
  std::vector<LayerPlacement> layers;
  DeviceIndex head = kHost;     // where the output matrix lives
  DeviceIndex head_on = kHost;  // where decode computes it

  /// Layers whose weights are copied to a GPU for every token.
  bool streams_weights(int layer) const;
  /// Tokens are decoded by the host alone; a GPU is for prompts then, if for anything.
  bool host_decodes() const;
  /// Layers of the host's that a GPU may compute for a prompt's batch, with weights that are copied
  /// for it. None where the host decodes alone.
  bool lends(int layer) const;
};

/// With exactly `gpu_layers` of layers + 1 on the GPUs.
Placement place(const Scenario& scenario, int gpu_layers);

}  // namespace rigcast
