#include "perfmodel/context/companions.hpp"

namespace rigcast {

DeviceIndex projector_device(const StepContext& s) {
  return s.projector->on_gpu && !s.rig.gpus.empty() ? 0 : kHost;
}

Placement placement_of_draft(const StepContext& s) {
  const int layers = s.draft->model.layers;
  const auto devices = split_over_gpus(s.rig, s.placement.tensor_split, layers + 1);
  Placement p;
  p.gpu_layers = s.rig.gpus.empty() ? 0 : layers + 1;
  for (int l = 0; l < layers; ++l) {
    const DeviceIndex at = devices[std::size_t(l)];
    const DeviceIndex kv = keeps_cache_in_ram(s.kv.policy) ? kHost : at;
    p.layers.push_back({.weights = at,
                        .experts = at,
                        .prefill_on = at,
                        .decode_on = at,
                        .decode_experts_on = at,
                        .decode_cache_on = kv,
                        .kv = kv});
  }
  p.head = p.head_on = devices.back();
  return p;
}

Bytes file_bytes(const StepContext& s) {
  Bytes all{double(s.tensors.bytes())};
  if (s.draft) all += Bytes{double(s.draft->tensors.bytes())};
  if (s.projector) all += s.projector->bytes;
  return all;
}

}  // namespace rigcast
