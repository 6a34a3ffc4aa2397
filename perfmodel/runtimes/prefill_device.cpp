#include "perfmodel/runtimes/prefill_device.hpp"

#include "perfmodel/cost/cpu_cost.hpp"

namespace rigcast {

DeviceIndex prefill_device(const StepContext& s, const Placement& p, const Batch& batch, int l) {
  const LayerPlacement& at = p.layers[std::size_t(l)];
  const bool streamed = at.prefill_on != kHost && at.weights == kHost;
  if (!streamed || s.rig.unified()) return at.prefill_on;
  // The last ubatch of a prompt may be too short to pay for the copy.
  if (batch.tokens() < s.runtime.prefill.stream_min_batch) return kHost;
  if (!s.runtime.prefill.picks_faster) return at.prefill_on;
  // States, and caches that layers share, stay where they are: HostPlacement's rule
  // (engine/placement/host_placement.cpp).
  if (s.model.has_recurrent_mixer(l) || s.model.shared_kv_layers > 0) return kHost;
  // The rule of copies() (engine/placement/prefill_offload.hpp), which has measured rates.
  OpTraffic t = attention_traffic(s.model, s.tensors, l, batch, s.kv.types);
  t += ffn_traffic(s.model, s.tensors, l, batch.tokens());
  t += experts_traffic(s.model, s.tensors, l, batch.tokens());
  const OpCost cpu = cpu_cost(s, t, batch.tokens());
  const Seconds on_cpu = time_alone(s, cpu, kHost);
  const HostLink& link = s.rig.links[std::size_t(at.prefill_on)];
  return Bytes{t.weight_bytes()} / link.h2d.value < on_cpu ? at.prefill_on : kHost;
}

}  // namespace rigcast
