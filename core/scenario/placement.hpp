#pragma once
// Placement: the device that stores, and the device that computes, each tensor. Planner, simulator
// and engine share this vocabulary.

#include <vector>

#include "core/scenario/scenario.hpp"

namespace rigcast {

/// A device is a GPU's index, or the host: CPU and RAM.
using DeviceIndex = int;
inline constexpr DeviceIndex kHost = -1;

struct LayerPlacement {
  DeviceIndex weights = kHost;     // location of LayerWeights::rest()
  DeviceIndex experts = kHost;     // location of routed experts, or of a dense layer's FFN
  DeviceIndex prefill_on = kHost;  // where the layer's operations run
  DeviceIndex decode_on = kHost;
  DeviceIndex decode_experts_on = kHost;
  DeviceIndex decode_cache_on = kHost;  // where decode's attention over the cache runs
  DeviceIndex kv = kHost;               // location of its KV, as far as it fits there

  bool operator==(const LayerPlacement&) const = default;
};

struct Placement {
  int gpu_layers = 0;      // as llama.cpp's -ngl: layers + 1 includes the head
  int cpu_moe_layers = 0;  // leading layers whose routed experts are in host memory
  std::vector<LayerPlacement> layers;
  DeviceIndex head = kHost;     // where the output matrix lives
  DeviceIndex head_on = kHost;  // where decode computes it

  /// Layers whose weights are copied to a GPU for every token.
  bool streams_weights(int layer) const;
  /// True if the host decodes alone; a GPU then computes prompts, if anything.
  bool host_decodes() const;
  /// True for a host layer that a GPU may compute for a prompt's batch, with copied weights
  /// (prefill offload). Never where the host decodes alone.
  bool offloadable(int layer) const;
};

/// The devices of `units` layers (and the head, the last) that are on GPUs, in shares of
/// `tensor_split`; empty: of usable VRAM. Without a GPU, all are on the host.
std::vector<DeviceIndex> split_over_gpus(const Rig& rig, const std::vector<double>& tensor_split,
                                         int units);

/// True if the CPU attends over caches of GPU layers: they are in RAM, and stay there.
template <class Settings>  // a Scenario or a StepContext
bool cpu_attends(const Settings& s) {
  const bool copied = s.runtime.copies_ram_cache && s.settings.flash_attention && !s.rig.unified();
  return s.kv.policy == KvPolicy::kRam && !copied;
}

/// True if the output head is the first of the layers + 1 to go to the GPUs, as in llama.cpp of
/// 2026; false: the last one.
bool head_is_first(const Scenario& scenario);
/// Of `gpu_layers` of layers + 1, those that are not the head.
int layers_without_head(const Scenario& scenario, int gpu_layers);

/// Places exactly `gpu_layers` of layers + 1 on the GPUs; the routed experts of the first
/// `cpu_moe_layers` stay in host memory, by default of as many as the scenario says.
Placement place(const Scenario& scenario, int gpu_layers);
Placement place(const Scenario& scenario, int gpu_layers, int cpu_moe_layers);

}  // namespace rigcast
