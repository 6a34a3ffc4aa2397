#include "perfmodel/context/host_copies.hpp"

namespace rigcast {

bool computes_on_mapped_pages(const StepContext& s) {
  return s.runtime.memory.maps_file && s.settings.mmap && s.rig.unified() &&
         s.settings.backend == Backend::kMetal;
}

Bytes tied_matrix(const StepContext& s) {
  return Bytes{s.tensors.head_is_embedding ? double(s.tensors.tensors.front().bytes) : 0.0};
}

Bytes host_weight_copies(const StepContext& s, const Placement& p, DeviceIndex head_on) {
  if (s.placement.decode_device != DecodeDevice::kCpu || s.rig.unified()) return {};
  double bytes = 0;
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    const LayerWeights& w = s.tensors.layers[l];
    if (p.layers[l].weights != kHost) bytes += double(w.rest());
    if (p.layers[l].experts != kHost) bytes += double(w.ffn_or_experts());
  }
  if (head_on != kHost) bytes += double(s.tensors.head.bytes()) - tied_matrix(s).value;
  return {bytes};
}

}  // namespace rigcast
