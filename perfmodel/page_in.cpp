#include "perfmodel/page_in.hpp"

#include <algorithm>
#include <cmath>

#include "perfmodel/memory.hpp"
#include "perfmodel/pressure/available_memory.hpp"

namespace rigcast {
namespace {

// Windows of read-ahead of a Linux system that nobody has set up (VM_READAHEAD_PAGES).
constexpr Bytes kDefaultReadahead = 128_KiB;

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

// What a step reads of the host's cache. A runtime may have allocated more of it.
Bytes cached_bytes(const StepContext& s, const Placement& p, const Batch& batch) {
  Bytes sum;
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    if (p.layers[l].kv != kHost || !s.model.has_kv(int(l))) continue;
    const bool windowed = s.model.window && !s.model.sees_all_tokens(int(l));
    for (const Sequence& q : batch.sequences) {
      const TokenCount all = q.cached + q.tokens;
      const TokenCount read = windowed ? std::min(all, s.model.window->tokens) : all;
      sum += Bytes{kv_bytes_per_token(s.model, int(l), s.kv.types) * double(read)};
    }
  }
  return sum;
}

}  // namespace

HostPools host_pools(const StepContext& s, const Placement& placement, const MemoryPlan& memory,
                     const Batch& batch, const TimelineEntry* at) {
  const DeviceMemory& host = memory.devices.back();
  const HostWeights used = host_weights(s, placement);
  const double chosen = used.experts * chosen_share(s, batch.tokens());
  const Bytes cache = host.kv + memory.swapped;
  const Bytes used_cache = std::min(cache, cached_bytes(s, placement, batch));
  const Bytes mapped = mapped_weights(s, memory);
  const Bytes copies =
      std::max(Bytes{}, host.weights + memory.swapped_weights + memory.outside_ram - mapped);
  const bool pinned = !s.rig.gpus.empty();
  const bool locks_kv = pinned || (s.memory && s.memory->locks_kv());
  const bool locks_weights = s.memory && s.memory->locks_weights();

  HostPools out;
  out.room = host.capacity - (host.overhead - memory.others);
  if (s.memory) out.room = std::min(out.room, room_of_ram(s));
  (locks_kv ? out.locked : out.anonymous) += used_cache;
  (locks_kv ? out.locked : out.idle) += cache - used_cache;
  (pinned ? out.locked : out.anonymous) += host.activations;
  (pinned || locks_weights ? out.locked : out.anonymous) += copies;
  // Of a GPU's staging buffers. The CPU's program is pages of its own file, few of which a step
  // needs: 417 MiB were enough for 368 of weights, 45 of cache and a program of 60.
  if (pinned) out.locked += host.staging;
  // Pages that no step touches, such as those of an input embedding, go first, and do not come
  // back.
  const Bytes files = std::min(mapped, Bytes{used.always + used.experts});
  if (locks_weights) {
    out.locked += mapped;
  } else {
    out.files = files;
    out.rarely = std::min(files, Bytes{used.experts});
    out.touched = std::min(files, Bytes{used.always + chosen});
  }
  if (s.memory) out.swap = swap_with_room(s);
  out.readahead = s.rig.ssd.readahead ? s.rig.ssd.readahead->value : kDefaultReadahead;
  if (!at) return out;
  out.locked += at->other;
  out.other_files = at->files;
  out.stream = at->stream;
  return out;
}

Paging page_in(const StepContext& s, const Placement& p, const MemoryPlan& memory,
               const Batch& batch) {
  if (s.memory) {
    const auto& timeline = s.memory->timeline;
    const TimelineEntry* const first = timeline.empty() ? nullptr : &timeline.front();
    return reclaim(host_pools(s, p, memory, batch, first), *s.memory);
  }
  Paging out;
  if (memory.outside_ram.value <= 0) return out;
  out.reclaim = Reclaim::kFiles;
  const HostWeights host = host_weights(s, p);
  const double held = std::max(0.0, host.always + host.experts - memory.outside_ram.value);
  const double chosen = host.experts * chosen_share(s, batch.tokens());
  out.files = {host.always + chosen > held
                   ? host.always + chosen
                   : chosen * (1 - (held - host.always) / std::max(host.experts, 1.0))};
  return out;
}

}  // namespace rigcast
