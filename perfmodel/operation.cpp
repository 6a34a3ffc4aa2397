#include "perfmodel/operation.hpp"

#include <algorithm>

#include "perfmodel/cost.hpp"

namespace rigcast {

OpCost operation_cost(const Scenario& s, DeviceIndex device, const OpTraffic& t, TokenCount tokens,
                      Launches launches) {
  if (device == kHost) return cpu_cost(s, t, tokens);
  const auto& kernels = s.runtime.kernels;
  const auto count = [&]() -> double {
    switch (launches) {
      case Launches::kNone: return 0;
      case Launches::kAttention: return (s.model.mla ? kernels.latent : kernels.attention).value;
      case Launches::kRecurrent: return kernels.recurrent.value;
      case Launches::kFfn: return kernels.ffn.value;
      case Launches::kHead: return kernels.head.value;
      case Launches::kHalfMoe: break;
    }
    return kernels.moe.value / 2 * s.runtime.era_at(s.settings.build_year).moe_kernels;
  };
  return gpu_cost(s, std::size_t(device), t, tokens, count());
}

Bytes charged_weights(const Scenario& s, Bytes bytes, bool mapped) {
  return bytes /
         (mapped ? s.runtime.prefill.mapped_share.value : s.runtime.decode.stream_share.value);
}

Seconds time_alone(const Scenario& s, const StepOp& op) {
  Seconds t = time_alone(s, op.cost, op.device);
  if (op.fetch) {
    const HostLink& link = s.rig.links[std::size_t(op.device)];
    t +=
        op.fetch->start + op.fetch->charged / (op.fetch->pageable ? link.pageable : link.h2d).value;
  }
  return op.host_part ? std::max(t, time_alone(s, *op.host_part, kHost)) : t;
}

Handoff handoff_of(const Scenario& s, const StepOp& op) {
  Handoff h;
  if (op.handoffs <= 0) return h;
  const bool gpus = op.from != kHost && op.device != kHost;
  const Seconds once = (gpus ? s.runtime.decode.gpu_crossing : s.runtime.decode.crossing).value;
  const Seconds wait = once * op.handoffs;
  h.wait = wait;
  if (op.handoff_bytes.value <= 0 || s.rig.unified()) return h;
  const auto copy = [&](BytesPerSecond rate, bool& over_link) {
    const Seconds alone = op.handoff_bytes / rate;
    over_link = alone >= wait;
    if (!over_link) h.wait += alone;
  };
  if (op.from != kHost) copy(s.rig.links[std::size_t(op.from)].d2h.value, h.copies_out);
  if (op.device != kHost) copy(s.rig.links[std::size_t(op.device)].h2d.value, h.copies_in);
  return h;
}

}  // namespace rigcast
