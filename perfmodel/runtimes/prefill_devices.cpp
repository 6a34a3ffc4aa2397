#include "perfmodel/runtimes/prefill_devices.hpp"

#include "core/model/kv_bytes.hpp"
#include "perfmodel/cost/cpu_cost.hpp"

namespace rigcast {

PrefillDevices::PrefillDevices(const StepContext& s, const Placement& p, const Batch& batch)
    : placement_(p),
      unified_(s.rig.unified()),
      // The last ubatch of a prompt may be too short to pay for the copy.
      copies_(batch.tokens() >= s.runtime.prefill.stream_min_batch &&
              (!s.runtime.prefill.picks_faster || copying_is_faster(s, batch))) {}

DeviceIndex PrefillDevices::of(int layer) const {
  return is_copied(layer) && !copies_ ? kHost : placement_.layers[std::size_t(layer)].prefill_on;
}

bool PrefillDevices::is_copied(int layer) const {
  const LayerPlacement& at = placement_.layers[std::size_t(layer)];
  return !unified_ && at.prefill_on != kHost && at.weights == kHost;
}

// The rule of copies() (engine/placement/prefill_offload.hpp), which has measured rates.
bool PrefillDevices::copying_is_faster(const StepContext& s, const Batch& batch) const {
  // Caches that layers share stay where they are: HostPlacement's rule
  // (engine/placement/host_placement.cpp).
  if (s.model.shared_kv_layers > 0) return false;
  Seconds copying, on_cpu;
  for (int l = 0; l < s.model.layers; ++l) {
    if (!is_copied(l)) continue;
    OpTraffic t = attention_traffic(s.model, s.tensors, l, batch, s.kv.types);
    t += ffn_traffic(s.model, s.tensors, l, batch.tokens());
    t += experts_traffic(s.model, s.tensors, l, batch.tokens());
    const HostLink& link = s.rig.links[std::size_t(placement_.layers[std::size_t(l)].prefill_on)];
    const double states = 2 * state_bytes(s.model, l);  // there and back
    copying += Bytes{t.weight_bytes() + states} / link.h2d.value;
    on_cpu += time_alone(s, cpu_cost(s, t, batch.tokens()), kHost);
  }
  return copying < on_cpu;
}

}  // namespace rigcast
