#pragma once
// Keys and values in RAM that a layer on a GPU needs: how they come, and which of them the CPU
// attends to instead while a token is decoded.

#include "perfmodel/operation.hpp"

namespace rigcast {

/// A copy of so many bytes of the cache to a GPU.
Fetch kv_fetch(const Scenario& scenario, double bytes);

/// The same of a layer's blocks that have left the GPU. The project's own engine copies pieces of
/// them, for several small layers at once.
Fetch cold_fetch(const Scenario& scenario, int layer, double bytes);

struct ColdSplit {
  double on_cpu = 0;  // bytes
  OpCost cost;        // of attending to them
};
/// Under KV policy `combined`, of a layer's `bytes` of cold keys and values, over which a token's
/// attention is `flops`: both sides end together, by the rates that they have alone. What the link
/// carries while the GPU is at the rest of the layer is the link's. Whole blocks.
ColdSplit cold_split(const Scenario& scenario, const Placement& placement, int layer,
                     DeviceIndex device, double flops, double bytes);

}  // namespace rigcast
