#include "perfmodel/runtimes/cold_cache.hpp"

#include <algorithm>
#include <cmath>

#include "core/scenario/engine_memory.hpp"
#include "perfmodel/cost.hpp"
#include "perfmodel/runtimes/engine_plan.hpp"

namespace rigcast {
namespace {

// Bytes of a layer's block.
double block_bytes(const Scenario& s, int layer) {
  return double(s.kv.block_tokens) * kv_bytes_per_token(s.model, layer, s.kv.cold_types());
}

// What the GPU takes for a token in a layer beside the cache: the host waits for its question.
Seconds beside_cache(const Scenario& s, const Placement& p, int l, DeviceIndex device) {
  StepOp op;
  op.device = device;
  Seconds sum = s.runtime.decode.cold_question.value;
  const auto take = [&](const OpTraffic& t, Launches launches) {
    op.cost = operation_cost(s, device, t, 1, launches);
    sum += time_alone(s, op);
  };
  const bool moe = s.model.is_moe_layer(l), recurrent = s.model.has_recurrent_mixer(l);
  const bool experts = p.layers[std::size_t(l)].decode_experts_on == device;
  take(projection_traffic(s.model, s.tensors, l, 1),
       recurrent ? Launches::kRecurrent : Launches::kAttention);
  if (s.model.has_ffn(l) && (moe || experts))
    take(ffn_traffic(s.model, s.tensors, l, 1), moe ? Launches::kHalfMoe : Launches::kFfn);
  if (moe && experts) take(experts_traffic(s.model, s.tensors, l, 1), Launches::kHalfMoe);
  return sum;
}

}  // namespace

Fetch kv_fetch(const Scenario& s, double bytes) {
  Fetch f;
  f.kind = ActivityKind::kFetchKv;
  f.bytes = {bytes};
  f.charged = f.bytes / s.runtime.decode.stream_share.value;
  f.ahead = s.kv.prefetch && s.runtime.decode.prefetch_depth > 0;
  return f;
}

Fetch cold_fetch(const Scenario& s, int layer, double bytes) {
  Fetch f = kv_fetch(s, bytes);
  if (!is_own_engine(s.runtime) || bytes <= 0) return f;
  const double block = block_bytes(s, layer);
  const auto blocks = TokenCount(std::ceil(bytes / block));
  const KvRing ring = kv_ring(blocks, s.model.layers, std::int64_t(block));
  f.start = s.runtime.decode.copy_start.value *
            (std::ceil(double(blocks) / kColdPieceBlocks) / ring.group_layers);
  return f;
}

ColdSplit cold_split(const Scenario& s, const Placement& p, int layer, DeviceIndex device,
                     double flops, double bytes) {
  ColdSplit split;
  if (s.kv.policy != KvPolicy::kCombined || device == kHost || bytes <= 0) return split;
  OpTraffic cold;
  cold.kv_read_bytes = bytes;
  cold.attention_flops = flops;
  cold.cache_format = s.kv.cold_types().k;
  const OpCost cpu = cpu_cost(s, cold, 1);
  const double on_host = time_alone(s, cpu, kHost).value;
  const BytesPerSecond link = s.rig.links[std::size_t(device)].h2d.value;
  const double over_link = (kv_fetch(s, bytes).charged / link).value;
  const Bytes ahead = link * (beside_cache(s, p, layer, device) + cpu_cost(s, {}, 1).gap);
  const double shared = std::max(0.0, bytes - ahead.value) * over_link / (on_host + over_link);
  if (shared < kLeastHostGain * bytes) return {};
  split.on_cpu = std::floor(shared / block_bytes(s, layer)) * block_bytes(s, layer);
  if (split.on_cpu <= 0) return {};
  cold.kv_read_bytes = split.on_cpu;
  cold.attention_flops *= split.on_cpu / bytes;
  split.cost = cpu_cost(s, cold, 1);
  split.cost.gap += s.runtime.decode.cold_question.value;
  return split;
}

}  // namespace rigcast
