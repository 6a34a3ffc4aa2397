#include "perfmodel/cost/operation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/hardware/expert_shares.hpp"
#include "perfmodel/blocks/between_products.hpp"
#include "perfmodel/cost/cpu_cost.hpp"
#include "perfmodel/cost/gpu_cost.hpp"
#include "perfmodel/cost/kernel_cost.hpp"

namespace rigcast {
namespace {

// The rate of a copy is bounded by the link and by the host's memory at its other end.
BytesPerSecond shared_rate(const StepContext& s, BytesPerSecond link) {
  return std::min(link, s.rig.ram.bandwidth.value);
}

// Launches of a layer's norms in half of the layer, attention or FFN, which has `own` norms beside
// its share of the layer's: those of the two that every layer has are counted with the others, as
// one launch each.
double norm_launches(const StepContext& s, int own) {
  const auto& kernels = s.runtime.kernels;
  const double further = std::max(0, s.model.norms_per_layer - 2) / 2.0;
  const double before = s.runtime.factor_before(ChangedFigure::kNormKernels,
                                                {s.settings.backend, {}}, s.settings.build_year);
  return kernels.norm.value * ((1.0 + own) * before - 1.0) +
         kernels.layer_norm.value * further * before;
}

// The query heads of a thread block of one token's attention. Mirrors heads_of_block
// (engine/kernels/cuda/attention/decode_attention.cu): four of a short context, as long as all
// blocks run at once, else up to 16 of those that share a KV head.
double query_heads_of_block(const StepContext& s, const OpTraffic& t) {
  constexpr double kFewHeads = 4, kManyHeads = 16, kBlocksAtOnce = 4, kSplitTokens = 64,
                   kMinTokens = 512;
  const double group = double(s.model.heads) / s.model.kv_heads;
  const auto& units = s.rig.gpus.empty() ? std::optional<int>{} : s.rig.gpus[0].units;
  if (!s.runtime.blocks || !units || t.flops_of_score <= 0) return group;
  const double tokens = t.attention_flops / t.flops_of_score / s.model.heads;
  const double splits =
      double(std::bit_ceil(std::uint64_t(std::max(tokens, kMinTokens)))) / kSplitTokens;
  const double blocks = splits * s.model.kv_heads * std::ceil(group / kFewHeads);
  return std::min(group, blocks <= kBlocksAtOnce * *units ? kFewHeads : kManyHeads);
}

// Of a layer's attention without norms. One token's attention takes longer with each query head of
// a thread block, and as much longer as heads are wider.
double attention_launches(const StepContext& s, const OpTraffic& t, TokenCount tokens) {
  const auto& kernels = s.runtime.kernels;
  if (s.model.mla) return kernels.latent.value;
  if (tokens > 1 || s.model.kv_heads < 1) return kernels.attention.value;
  constexpr double kDefaultHeadDim = 128;
  const double width = t.flops_of_score > 0 ? t.flops_of_score / 4 : double(s.model.head_dim);
  const double wider = std::max(0.0, width / kDefaultHeadDim - 1);
  return kernels.token_attention.value_or(kernels.attention).value +
         kernels.query_head.value * query_heads_of_block(s, t) + kernels.head_width.value * wider;
}

// Of a layer's router and experts. Experts of one token have blocks of their own, which take their
// time however small they are.
double moe_launches(const StepContext& s, TokenCount tokens) {
  const auto& kernels = s.runtime.kernels;
  if (tokens > 1) return kernels.moe.value;
  return kernels.token_moe.value_or(kernels.moe).value +
         kernels.chosen_expert.value * double(s.model.moe->experts_used);
}

// Each token replaces a part of the state. That of Mamba decays, and a norm follows.
bool is_delta_net(const ModelSpec& model) {
  constexpr std::string_view kFamilies[] = {"qwen3next", "qwen35", "kimi-linear"};
  return std::ranges::any_of(kFamilies,
                             [&](std::string_view f) { return model.architecture.starts_with(f); });
}

double recurrent_launches(const StepContext& s) {
  const auto& kernels = s.runtime.kernels;
  if (is_short_convolution(s.model))
    return kernels.short_convolution.value_or(kernels.recurrent).value;
  if (is_delta_net(s.model)) return kernels.recurrent.value;
  return kernels.mamba.value_or(kernels.recurrent).value;
}

// Of attention beside a mixer, which both read one norm.
double launches_beside(const StepContext& s, const OpTraffic& t, TokenCount tokens) {
  return s.model.recurrent->parallel ? attention_launches(s, t, tokens) - 1.0 : 0.0;
}

double launches_of(const StepContext& s, const OpTraffic& t, Launches launches, TokenCount tokens) {
  const auto& kernels = s.runtime.kernels;
  switch (launches) {
    case Launches::kNone: return 0;
    case Launches::kAttention:
      return attention_launches(s, t, tokens) + norm_launches(s, s.model.qk_norm ? 2 : 0) +
             (s.kv.policy == KvPolicy::kStream ? kernels.offload.value : 0.0);
    case Launches::kRecurrent:
      return recurrent_launches(s) + norm_launches(s, 0) + launches_beside(s, t, tokens);
    case Launches::kFfn: return kernels.ffn.value + norm_launches(s, 0);
    case Launches::kHead: return kernels.head.value;
    case Launches::kMoePart: break;
  }
  const double moe = moe_launches(s, tokens) * s.runtime.factor_before(ChangedFigure::kMoeKernels,
                                                                       {s.settings.backend, {}},
                                                                       s.settings.build_year);
  return (moe + norm_launches(s, 0)) / 2;  // of two parts: router and experts
}

// Of what GPUs exchange, for the tokens of a step.
Bytes exchanged(const SharedLayers& shared, std::int64_t elements, TokenCount tokens) {
  const double element = tokens > kMatVecTokens ? shared.batch_element : shared.element;
  return Bytes{element * double(elements) * double(tokens)};
}

// GPUs that share a layer add up what each computed after attention and after the FFN. The first
// one gathers the logits, of which each has those of a part of the vocabulary.
Seconds exchange_time(const StepContext& s, DeviceIndex device, const SharedLayers& shared,
                      const OpTraffic& t, TokenCount tokens, Launches launches) {
  if (t.matrices <= 0) return {};
  const Seconds summed = all_reduce_time(shared, exchanged(shared, s.model.hidden, tokens)) +
                         exchange_launches(s, s.rig.gpus[std::size_t(device)], tokens);
  switch (launches) {
    case Launches::kNone: return {};
    case Launches::kHead: return gather_time(shared, exchanged(shared, s.model.vocabulary, tokens));
    case Launches::kMoePart: return summed / 2;  // router and experts
    default: return summed;
  }
}

// GPUs with whole experts wait for the one with the most of them: as if all had as much.
OpTraffic as_on_fullest(const StepContext& s, DeviceIndex device, OpTraffic t, TokenCount tokens) {
  const auto& shared = s.rig.gpus[std::size_t(device)].shared;
  if (!t.routed || tokens <= 0 || !shared || !shared->whole_experts) return t;
  const FullestShare fullest =
      fullest_share(s.model.moe->experts, s.model.moe->experts_used, double(tokens), shared->gpus);
  for (double& bytes : t.weight_bytes_by_format) bytes *= fullest.experts;
  t.matmul_flops *= fullest.rows;
  return t;
}

}  // namespace

OpCost operation_cost(const StepContext& s, DeviceIndex device, const OpTraffic& t,
                      TokenCount tokens, Launches launches, bool in_graph) {
  if (device != kHost) {
    const OpTraffic of_fullest = as_on_fullest(s, device, t, tokens);
    OpCost cost = gpu_cost(s, std::size_t(device), of_fullest, tokens,
                           launches_of(s, t, launches, tokens), in_graph);
    if (const auto& shared = s.rig.gpus[std::size_t(device)].shared)
      cost.overhead += exchange_time(s, device, *shared, t, tokens, launches);
    return cost;
  }
  OpCost cost = cpu_cost(s, t, tokens);
  // The CPU computes an operation before the next one is launched.
  if (s.runtime.kernels.eager)
    cost.overhead += s.runtime.backends[std::size_t(s.settings.backend)].launch.value *
                     host_clock_factor(s) * launches_of(s, t, launches, tokens);
  return cost;
}

Bytes equivalent_weight_bytes(const StepContext& s, Bytes bytes, bool mapped) {
  return bytes /
         (mapped ? s.runtime.prefill.mapped_share.value : s.runtime.decode.stream_share.value);
}

Bytes copied_cache_bytes(const StepContext& s, Bytes bytes) {
  return bytes / s.runtime.prefill.mapped_share.value;
}

Bytes as_pinned(const StepContext& s, DeviceIndex gpu, Bytes pageable) {
  return pageable * (h2d_rate(s, gpu, false) / h2d_rate(s, gpu, true));
}

// The same as exchange_time().
Bytes exchanged_bytes(const StepContext& s, const StepOp& op) {
  if (op.device == kHost || op.traffic.matrices <= 0) return {};
  const auto& shared = s.rig.gpus[std::size_t(op.device)].shared;
  if (!shared) return {};
  const Bytes hidden = exchanged(*shared, s.model.hidden, op.tokens);
  const double gpus = shared->gpus;
  switch (op.launches) {
    case Launches::kNone: return {};
    case Launches::kHead:
      return gather_bytes(*shared, exchanged(*shared, s.model.vocabulary, op.tokens)) * gpus;
    case Launches::kMoePart: return all_reduce_bytes(*shared, hidden) * (gpus / 2);
    default: return all_reduce_bytes(*shared, hidden) * gpus;
  }
}

OpCost operation_cost(const StepContext& s, const StepOp& op) {
  OpCost cost = operation_cost(s, op.device, op.traffic, op.tokens, op.launches, op.in_graph);
  if (op.dequantizes_cache && s.runtime.blocks)
    cost.overhead += s.runtime.blocks->quantized_start.value;
  return cost;
}

void price(const StepContext& s, StepOp& op) {
  op.cost = operation_cost(s, op);
  if (!op.fetch) return;
  // The bytes that accompany weights are KV cache, which is not in a mapped file.
  const bool has_weights = op.fetch->kind == ActivityKind::kFetchWeights;
  const Bytes weights{has_weights ? op.traffic.weight_bytes() : 0.0};
  const Bytes cache = op.fetch->bytes - weights;
  Bytes of_cache = cache / s.runtime.decode.stream_share.value;
  if (op.fetch->copied_cache) of_cache = copied_cache_bytes(s, cache);
  if (op.fetch->copied_cache && !op.fetch->pageable) of_cache = as_pinned(s, op.device, of_cache);
  op.fetch->equivalent_bytes = equivalent_weight_bytes(s, weights, op.fetch->mapped) + of_cache;
  if (op.fetch->copied_cache) op.fetch->start = s.runtime.decode.crossing.value;
}

BytesPerSecond h2d_rate(const StepContext& s, DeviceIndex gpu, bool pageable) {
  const HostLink& link = s.rig.links[std::size_t(gpu)];
  return (pageable ? link.pageable : link.h2d).value;
}

Seconds fetch_time(const StepContext& s, const StepOp& op) {
  if (!op.fetch) return {};
  const BytesPerSecond rate = h2d_rate(s, op.device, op.fetch->pageable);
  return op.fetch->start + op.fetch->equivalent_bytes / shared_rate(s, rate);
}

Seconds copy_out_time(const StepContext& s, DeviceIndex gpu, Bytes bytes) {
  return bytes / shared_rate(s, s.rig.links[std::size_t(gpu)].d2h.value);
}

Seconds time_alone(const StepContext& s, const StepOp& op) {
  const Seconds t = time_alone(s, op.cost, op.device) + fetch_time(s, op);
  return op.host_part ? std::max(t, time_alone(s, *op.host_part, kHost)) : t;
}

Seconds crossing_time(const RuntimeProfile& runtime, DeviceIndex from, DeviceIndex to) {
  const bool between_gpus = from != kHost && to != kHost;
  return (between_gpus ? runtime.decode.gpu_crossing : runtime.decode.crossing).value;
}

namespace {

// GPUs that share the layers of a stage send a part each to one of the next, where all gather the
// parts: vllm/distributed/parallel_state.py, send_tensor_dict().
Seconds to_next_stage(const StepContext& s, const StepOp& op) {
  const GpuExchange& link = *s.rig.between_stages;
  const auto& shared = s.rig.gpus[std::size_t(op.device)].shared;
  const double gpus = shared ? shared->gpus : 1;
  const Seconds sent = link.latency.value + op.handoff_bytes / (link.bus.value * gpus);
  return shared ? sent + gather_time(*shared, op.handoff_bytes) : sent;
}

}  // namespace

Handoff handoff_of(const StepContext& s, const StepOp& op) {
  Handoff h;
  if (op.handoffs <= 0) return h;
  const Seconds wait = crossing_time(s.runtime, op.from, op.device) * op.handoffs;
  h.wait = wait;
  if (op.handoff_bytes.value <= 0 || s.rig.unified()) return h;
  if (s.rig.between_stages && op.from != kHost && op.device != kHost) {
    h.wait += to_next_stage(s, op);
    return h;
  }
  const auto copy = [&](BytesPerSecond rate, bool& over_link) {
    const Seconds alone = op.handoff_bytes / rate;
    over_link = alone >= wait;
    if (!over_link) h.wait += alone;
  };
  if (op.from != kHost) copy(s.rig.links[std::size_t(op.from)].d2h.value, h.copies_out);
  if (op.device != kHost) copy(h2d_rate(s, op.device, false), h.copies_in);
  return h;
}

Seconds handoff_time(const StepContext& s, const StepOp& op) {
  const Handoff h = handoff_of(s, op);
  Seconds t = h.wait;
  if (h.copies_out) t += copy_out_time(s, op.from, op.handoff_bytes);
  if (h.copies_in) t += op.handoff_bytes / shared_rate(s, h2d_rate(s, op.device, false));
  return t;
}

}  // namespace rigcast
