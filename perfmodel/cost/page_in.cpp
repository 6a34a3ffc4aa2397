#include "perfmodel/cost/page_in.hpp"

#include <algorithm>
#include <cmath>

namespace rigcast {
namespace {

struct HostWeights {
  double always = 0;   // used by every step
  double experts = 0;  // of which a token uses its share
};

HostWeights host_weights(const StepContext& s, const Placement& p) {
  HostWeights out;
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    const LayerWeights& w = s.tensors.layers[l];
    if (p.layers[l].weights == kHost) out.always += double(w.rest());
    if (p.layers[l].experts != kHost) continue;
    (s.model.is_moe_layer(int(l)) ? out.experts : out.always) += double(w.ffn_or_experts());
  }
  if (p.head == kHost) out.always += double(s.tensors.head.bytes());
  return out;
}

// The share of all experts that at least one of the tokens chooses.
double chosen_share(const StepContext& s, TokenCount tokens) {
  if (!s.model.moe) return 0;
  const double one = double(s.model.moe->experts_used) / double(s.model.moe->experts);
  return 1 - std::pow(1 - one, double(tokens));
}

}  // namespace

Bytes page_in(const StepContext& s, const Placement& p, const MemoryPlan& memory,
              TokenCount tokens) {
  if (memory.outside_ram.value <= 0) return {};
  const HostWeights host = host_weights(s, p);
  const double held = std::max(0.0, host.always + host.experts - memory.outside_ram.value);
  const double chosen = host.experts * chosen_share(s, tokens);
  if (host.always + chosen > held) return {host.always + chosen};
  return {chosen * (1 - (held - host.always) / std::max(host.experts, 1.0))};
}

BytesPerSecond file_read_rate(const StepContext& s) {
  const SsdPart& ssd = s.rig.ssd;
  const BytesPerSecond sequential = ssd.sequential_read.value;
  const double share = s.runtime.load.ssd_share.value;
  if (!s.runtime.load.maps_pages || !ssd.mapped_read) return sequential * share;
  // The disk's rate is that of sequential requests. A single reader of mapped pages reaches the
  // rate measured for those, which may be higher. Several readers send requests, and reach the
  // higher of both measured rates: a disk shared with other machines can only be measured too low.
  const BytesPerSecond pages = ssd.mapped_read->value;
  const bool by_requests = s.runtime.load.readers > 1 && !s.rig.gpus.empty();
  return by_requests ? std::max(sequential, pages) * share : pages;
}

}  // namespace rigcast
