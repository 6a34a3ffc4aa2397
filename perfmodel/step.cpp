#include "perfmodel/step.hpp"

#include <algorithm>
#include <optional>

#include "core/model/kv_bytes.hpp"
#include "perfmodel/cost/attention_mask.hpp"
#include "perfmodel/cost/kernel_cost.hpp"
#include "perfmodel/cost/kv_fetch.hpp"
#include "perfmodel/cost/last_level_cache.hpp"
#include "perfmodel/page_in.hpp"
#include "perfmodel/runtimes/prefill_devices.hpp"
#include "perfmodel/runtimes/runtime_models.hpp"

namespace rigcast {
namespace {

// Builds the operations of one pass, layer by layer.
class StepBuilder {
 public:
  /// `logits_rows`: how many are wanted of the batch.
  StepBuilder(const StepContext& s, const Placement& p, const MemoryPlan& m, const Batch& batch,
              Phase phase, TokenCount logits_rows)
      : s_(s),
        rules_(runtime_model(s.runtime)),
        p_(p),
        memory_(m),
        batch_(batch),
        phase_(phase),
        logits_rows_(logits_rows),
        in_graph_(decode() && batch.sequences.size() > 1 &&
                  rules_.records_batches(s, p, rules_.cold_tokens(s, m, batch))) {
    if (!decode()) devices_.emplace(s, p, batch);
  }

  /// The reference is valid until the next call.
  const std::vector<StepOp>& layer(int l) {
    ops_.clear();
    const LayerPlacement& at = p_.layers[std::size_t(l)];
    const DeviceIndex device = devices_ ? devices_->of(l) : at.decode_on;
    const bool cpu_attention = decode() ? at.decode_cache_on == kHost
                                        : cpu_attends(s_) && s_.runtime.prefill.cpu_attention;
    const bool host_cache = device != kHost && cpu_attention;
    if (s_.model.has_attention(l) || s_.model.has_recurrent_mixer(l)) {
      if (host_cache && s_.model.has_attention(l)) {
        split_attention(l, device);
      } else {
        attention(l, device);
      }
    }
    if (s_.model.has_ffn(l)) {
      const bool moe = s_.model.is_moe_layer(l);
      const TokenCount tokens = ffn_tokens(l, device);
      ffn(l, moe ? device : expert_device(l, device), tokens);
      if (moe) experts(l, expert_device(l, device), tokens);
    }
    return ops_;
  }

  StepOp head(DeviceIndex device, TokenCount rows) {
    StepOp op;
    op.kind = ActivityKind::kHead;
    op.device = device;
    OpTraffic t = head_traffic(s_.model, s_.tensors, rows);
    const double spilled = subtract_spilled(t, p_.head, device);
    op.traffic = t;
    op.tokens = rows;
    op.launches = Launches::kHead;
    op.in_graph = in_graph_;
    op.cost = operation_cost(s_, op);
    add_fetch(op, spill_fetch(spilled));
    return op;
  }

 private:
  bool decode() const { return phase_ == Phase::kDecode; }

  // The tokens of the batch that pass a layer's FFN. `device`: the layer's.
  TokenCount ffn_tokens(int l, DeviceIndex device) const {
    const bool leaves_out = !decode() && l + 1 == s_.model.layers && device != kHost &&
                            rules_.leaves_out_tokens() && !s_.model.has_parallel_ffn(l);
    return leaves_out ? logits_rows_ : batch_.tokens();
  }

  Launches mixer_launches(int l) const {
    return s_.model.has_recurrent_mixer(l) ? Launches::kRecurrent : Launches::kAttention;
  }

  StepOp& add(ActivityKind kind, int layer, DeviceIndex device, const OpTraffic& t,
              Launches launches) {
    return add(kind, layer, device, t, launches, batch_.tokens());
  }
  StepOp& add(ActivityKind kind, int layer, DeviceIndex device, const OpTraffic& t,
              Launches launches, TokenCount tokens) {
    StepOp op;
    op.kind = kind;
    op.layer = layer;
    op.device = device;
    op.traffic = t;
    op.tokens = tokens;
    op.launches = launches;
    op.in_graph = in_graph_;
    op.cost = operation_cost(s_, op);
    ops_.push_back(std::move(op));
    return ops_.back();
  }

  // The copy of weights from the host to the GPU that computes with them.
  void fetch_weights(StepOp& op, DeviceIndex home, double bytes, bool known_ahead) const {
    if (op.device == kHost || home != kHost || bytes <= 0 || s_.rig.unified()) return;
    const bool overlap =
        decode() ? s_.runtime.decode.prefetch_depth > 0 : s_.runtime.prefill.overlap;
    Fetch f;
    f.bytes = {bytes};
    f.mapped = !decode() && s_.settings.mmap && s_.runtime.prefill.staging == Staging::kPageable;
    f.pageable = f.mapped && s_.runtime.prefill.pageable_pages;
    f.equivalent_bytes = equivalent_weight_bytes(s_, f.bytes, f.mapped);
    f.early = overlap && known_ahead;
    op.fetch = f;
  }

  // Merges a second copy that the same operation waits for, on the way of the first.
  void add_fetch(StepOp& op, Fetch f) const {
    if (f.bytes.value <= 0) return;
    if (op.fetch) {
      if (f.pageable && !op.fetch->pageable)
        f.equivalent_bytes = as_pinned(s_, op.device, f.equivalent_bytes);
      op.fetch->bytes += f.bytes;
      op.fetch->equivalent_bytes += f.equivalent_bytes;
      op.fetch->start += f.start;
      op.fetch->early = op.fetch->early && f.early;
      op.fetch->copied_cache = op.fetch->copied_cache || f.copied_cache;
    } else {
      op.fetch = f;
    }
  }

  DeviceIndex expert_device(int l, DeviceIndex device) const {
    const LayerPlacement& at = p_.layers[std::size_t(l)];
    if (decode()) return at.decode_experts_on;
    if (device == kHost || at.experts != kHost) return device;
    // Whole host layers are streamed here; experts alone follow rules of their own.
    if (at.weights == kHost) return device;
    return (s_.model.is_moe_layer(l) ? streams_experts() : streams_matrices()) ? device : kHost;
  }

  bool streams_matrices() const {
    const RuntimeProfile::Prefill& prefill = s_.runtime.prefill;
    return prefill.streams && s_.settings.op_offload && batch_.tokens() >= prefill.stream_min_batch;
  }

  bool streams_experts() const {
    const RuntimeProfile::Prefill& prefill = s_.runtime.prefill;
    const double since = prefill.experts_since.value;
    if (!prefill.streams || !s_.settings.op_offload) return false;
    if (s_.settings.build_year.value_or(since) < since) return false;
    const MixtureOfExperts& moe = *s_.model.moe;
    const int times = prefill.experts_need_more ? moe.experts / std::max(1, moe.experts_used) : 1;
    return batch_.tokens() >= prefill.stream_min_batch * times;
  }

  void attention(int l, DeviceIndex device) {
    OpTraffic t = projection_traffic(s_.model, s_.tensors, l, batch_.tokens());
    const DeviceIndex home = p_.layers[std::size_t(l)].weights;
    const double weights = t.weight_bytes();
    double spilled = subtract_spilled(t, home, device);
    OpTraffic cache = cache_traffic(s_.model, l, batch_, s_.kv.types);
    const double all_read = cache.kv_read_bytes;
    const bool in_ram = cache_in_ram(l, device);
    const bool reads_ram = in_ram && !keeps_own_cache(l, device);
    const double cold = device == kHost ? 0.0 : cold_read_share(l, reads_ram);
    const double cold_bytes = cold * all_read * (evicts_from_vram(in_ram) ? cold_ratio(l) : 1.0);
    // Attention reads cold blocks from the ring buffer into which they are copied, in their own
    // type.
    const ColdSplit split =
        decode()
            ? rules_.split_cold_blocks(s_, p_, l, device, cold * cache.attention_flops, cold_bytes)
            : ColdSplit{};
    const double on_gpu = cold_bytes - split.on_cpu;
    cache.kv_read_bytes = all_read * (1.0 - cold) + on_gpu;
    const double kv_spilled = device == kHost ? 0.0 : all_read * spill_of(device).of_kv;
    cache.kv_read_bytes -= kv_spilled;
    spilled += kv_spilled;
    if (decode() && s_.runtime.decode.copies_kv && s_.model.has_kv(l))
      cache.kv_copied_bytes = all_read;
    // The host starts when it has the queries, so the projections come before its part.
    const bool apart = split.on_cpu > 0;
    if (!apart) t += cache;
    StepOp& op = add(ActivityKind::kAttention, l, device, t, mixer_launches(l));
    fetch_weights(op, home, weights, true);
    add_fetch(op, state_fetch(l, device));
    add_fetch(op, spill_fetch(spilled));
    if (cold <= 0 && !reads_ram) return;
    StepOp& cached = apart ? add(ActivityKind::kAttention, l, device, cache, Launches::kNone) : op;
    cold_cache(cached, l, split, cold_bytes, in_ram);
  }

  // What a recurrent layer of the host's has kept of the tokens before a prompt, where the GPU
  // computes the prompt.
  Fetch state_fetch(int l, DeviceIndex device) const {
    const LayerPlacement& at = p_.layers[std::size_t(l)];
    if (decode() || !rules_.copies_states() || s_.rig.unified()) return {};
    if (device == kHost || at.decode_on != kHost || at.weights != kHost) return {};
    const auto begins = [](const Sequence& q) { return q.cached > 0 && q.cached <= q.depth; };
    return kv_fetch(s_, state_bytes(s_.model, l) *
                            double(std::ranges::count_if(batch_.sequences, begins)));
  }

  // The layer computes on a GPU and its KV lives in host memory.
  bool cache_in_ram(int l, DeviceIndex device) const {
    return !s_.rig.unified() && device != kHost && p_.layers[std::size_t(l)].kv == kHost;
  }

  // Where the host decodes, the GPU keeps the KV that prompts have produced in its own layers.
  bool keeps_own_cache(int l, DeviceIndex device) const {
    return rules_.keeps_prompt_cache_on_gpu() && !decode() && p_.host_decodes() &&
           p_.layers[std::size_t(l)].weights == device;
  }

  // The CPU attends over the cache; the GPU computes everything else of the layer.
  void split_attention(int l, DeviceIndex device) {
    const OpTraffic t = projection_traffic(s_.model, s_.tensors, l, batch_.tokens());
    StepOp& op = add(ActivityKind::kAttention, l, device, t, mixer_launches(l));
    fetch_weights(op, p_.layers[std::size_t(l)].weights, t.weight_bytes(), true);
    add(ActivityKind::kCacheAttention, l, kHost, cache_traffic(s_.model, l, batch_, s_.kv.types),
        Launches::kNone);
  }

  // True if a GPU computes the layer with weights in RAM: all of them are copied, however few
  // tokens pass the FFN.
  bool is_copied(int l, DeviceIndex device) const {
    return device != kHost && p_.layers[std::size_t(l)].weights == kHost && !s_.rig.unified();
  }

  // An FFN or experts of no tokens: what is copied for them, and the way of the attention output
  // back from the CPU.
  template <class Traffic>
  void without_tokens(ActivityKind kind, int l, DeviceIndex device, const Traffic& traffic) {
    const bool copied = is_copied(l, device);
    const bool returns = !ops_.empty() && ops_.back().kind == ActivityKind::kCacheAttention;
    if (!copied && !returns) return;
    StepOp& op = add(kind, l, device, {}, Launches::kNone, 0);
    if (copied) fetch_weights(op, kHost, traffic(batch_.tokens()).weight_bytes(), true);
  }

  void ffn(int l, DeviceIndex device, TokenCount tokens) {
    const auto traffic = [&](TokenCount n) { return ffn_traffic(s_.model, s_.tensors, l, n); };
    if (tokens == 0) return without_tokens(ActivityKind::kFfn, l, device, traffic);
    OpTraffic t = traffic(tokens);
    const bool moe = s_.model.is_moe_layer(l);
    const LayerPlacement& at = p_.layers[std::size_t(l)];
    const DeviceIndex home = moe ? at.weights : at.experts;
    const Launches launches = moe ? Launches::kMoePart : Launches::kFfn;
    const double weights = t.weight_bytes();
    const double spilled = subtract_spilled(t, home, device);
    StepOp& op = add(ActivityKind::kFfn, l, device, t, launches, tokens);
    fetch_weights(op, home, weights, true);
    add_fetch(op, spill_fetch(spilled));
  }

  void experts(int l, DeviceIndex device, TokenCount tokens) {
    const auto traffic = [&](TokenCount n) { return experts_traffic(s_.model, s_.tensors, l, n); };
    if (tokens == 0) return without_tokens(ActivityKind::kExperts, l, device, traffic);
    OpTraffic t = traffic(tokens);
    const DeviceIndex home = p_.layers[std::size_t(l)].experts;
    const bool all = tokens < batch_.tokens() && is_copied(l, device);
    const double weights = (all ? traffic(batch_.tokens()) : t).weight_bytes();
    const double spilled = subtract_spilled(t, home, device);
    StepOp& op = add(ActivityKind::kExperts, l, device, t, Launches::kMoePart, tokens);
    // The experts that a few tokens need are known only after the router; a batch needs nearly all
    // of them.
    fetch_weights(op, home, weights, !decode());
    add_fetch(op, spill_fetch(spilled));
  }

  MemoryPlan::Spill spill_of(DeviceIndex device) const {
    return device == kHost || memory_.spilled.empty() ? MemoryPlan::Spill{}
                                                      : memory_.spilled[std::size_t(device)];
  }

  // The driver keeps these weights in system memory: they are read over the link, not from VRAM.
  double subtract_spilled(OpTraffic& t, DeviceIndex home, DeviceIndex device) const {
    const double share = home == device ? spill_of(device).of_weights : 0.0;
    const double bytes = share * t.weight_bytes();
    for (double& b : t.weight_bytes_by_format) b *= 1.0 - share;
    return bytes;
  }

  Fetch spill_fetch(double bytes) const {
    Fetch f = kv_fetch(s_, bytes);
    f.early = false;  // the GPU reads it in place, when it is needed
    return f;
  }

  // The share of the layer's cached tokens that are fetched from RAM for attention.
  double cold_read_share(int l, bool in_ram) const {
    if (!s_.model.has_kv(l) || s_.rig.unified()) return 0.0;
    const TokenCount cached = batch_.cached() + batch_.tokens();
    // The KV that the batch adds is in VRAM while the batch computes.
    const bool leaves = rules_.streams_in_blocks() && s_.kv.policy == KvPolicy::kStream;
    if (in_ram && s_.runtime.copies_ram_cache) return 1.0;
    if (in_ram && !leaves) return double(batch_.cached()) / double(cached);
    const TokenCount cold = cold_tokens(s_, memory_, batch_);
    if (cold == 0 || !s_.model.sees_all_tokens(l)) return 0.0;
    // Every step reads all blocks in order, so the least recently used block is always the one that
    // is needed next: once the blocks outnumber the space, LRU keeps none of them.
    const TokenCount read =
        s_.kv.evict == Eviction::kLru ? std::max(cold, cached - s_.kv.hot_tokens) : cold;
    return std::min(1.0, double(read) / double(cached));
  }

  // Blocks that may have another type than the part of the cache that is in RAM from the start.
  bool evicts_from_vram(bool in_ram) const { return !in_ram || s_.kv.policy == KvPolicy::kStream; }

  // The ratio of a cold token's bytes to a hot token's.
  double cold_ratio(int l) const {
    const double hot = kv_bytes_per_token(s_.model, l, s_.kv.types);
    return hot > 0 ? kv_bytes_per_token(s_.model, l, s_.kv.cold_types()) / hot : 1;
  }

  void cold_cache(StepOp& op, int l, const ColdSplit& split, double cold_bytes, bool in_ram) {
    const double over_link = cold_bytes - split.on_cpu;
    if (split.on_cpu > 0) op.host_part = split.cost;
    Fetch fetch = in_ram ? ram_cache_fetch(s_, over_link) : kv_fetch(s_, over_link);
    if (evicts_from_vram(in_ram)) fetch.start = rules_.cold_copy_start(s_, l, over_link);
    add_fetch(op, fetch);
    // Blocks of another type are dequantized to FP16 before attention reads them.
    const KvTypes cold = s_.kv.cold_types();
    const bool alike = cold.k == s_.kv.types.k && cold.v == s_.kv.types.v;
    op.dequantizes_cache = cold_bytes > 0 && evicts_from_vram(in_ram) && !alike;
    op.cost = operation_cost(s_, op);
    // Every new token evicts the oldest one, in whole blocks: on average one token per step.
    const KvTypes to = evicts_from_vram(in_ram) ? s_.kv.cold_types() : s_.kv.types;
    op.store = Bytes{kv_bytes_per_token(s_.model, l, to) * double(batch_.tokens())};
  }

  const StepContext s_;
  const RuntimeModel& rules_;
  const Placement& p_;
  const MemoryPlan& memory_;
  const Batch& batch_;
  const Phase phase_;
  const TokenCount logits_rows_;
  const bool in_graph_;
  std::optional<PrefillDevices> devices_{};  // of a prompt's batch
  std::vector<StepOp> ops_;
};

// Layers that are alike have the same operations, so only the first of them is computed.
std::vector<StepOp> layers_of(const StepContext& s, const Placement& p, StepBuilder& builder,
                              Phase phase, const StepGrouping& grouping) {
  const std::vector<int> found = grouping.alike ? std::vector<int>{} : alike_layers(s, p, phase);
  const std::vector<int>& alike = grouping.alike ? *grouping.alike : found;
  std::vector<StepOp> ops;
  std::vector<std::pair<std::size_t, std::size_t>> range(alike.size());  // in `ops`
  for (std::size_t l = 0; l < alike.size(); ++l) {
    const auto first = std::size_t(alike[l]);
    range[l].first = ops.size();
    if (first == l) {
      const std::vector<StepOp>& layer = builder.layer(int(l));
      if (l == 0) ops.reserve(layer.size() * alike.size() + 1);
      ops.insert(ops.end(), layer.begin(), layer.end());
    } else {
      for (std::size_t i = range[first].first; i < range[first].second; ++i) {
        StepOp op = ops[i];
        op.layer = int(l);
        ops.push_back(std::move(op));
      }
    }
    range[l].second = ops.size();
  }
  return ops;
}

// A handoff moves the hidden states of an operation's tokens between devices; behind attention on
// the CPU, those of all tokens that it has computed.
void add_handoffs(const StepContext& s, std::vector<StepOp>& ops) {
  const Bytes hidden = hidden_bytes(s.model);
  const auto qkv_and_output = [&](int layer) {
    return Bytes{4.0 * double(s.model.heads + 2 * s.model.kv_heads_of(layer)) *
                 double(s.model.head_dim_of(layer))};
  };
  DeviceIndex at = kHost;  // the embedding rows come from host memory
  const StepOp* before = nullptr;
  for (StepOp& op : ops) {
    if (op.device != at) {
      op.handoffs = 1;
      op.from = at;
      // Attention outputs come from the device of the cache; q, k and v go to it.
      const bool to_cache = op.kind == ActivityKind::kCacheAttention;
      const bool from_cache = before && before->kind == ActivityKind::kCacheAttention;
      const TokenCount tokens = from_cache ? before->tokens : op.tokens;
      if (!s.rig.unified())
        op.handoff_bytes = (to_cache ? qkv_and_output(op.layer) : hidden) * double(tokens);
    }
    at = op.device;
    before = &op;
  }
}

}  // namespace

// Logits that the host computes beside a GPU are copied, and one thread searches them. A GPU
// searches those of all rows at once.
Seconds sample_time(const StepContext& s, DeviceIndex head, TokenCount rows) {
  const auto& decode = s.runtime.decode;
  const bool beside = head == kHost && !s.rig.gpus.empty() && !s.rig.unified();
  if (head != kHost && runtime_model(s.runtime).samples_on_gpu()) return decode.sample.value;
  const Seconds one = decode.sample.value +
                      (beside ? decode.host_logit.value : Seconds{}) * double(s.model.vocabulary);
  return one * double(rows);
}

bool waits_for_host(const std::vector<StepOp>& ops, const Batch& batch, Phase phase) {
  const auto is_first = [](const Sequence& q) { return q.cached <= q.depth; };
  return phase == Phase::kDecode || std::ranges::all_of(batch.sequences, is_first) ||
         std::ranges::find(ops, kHost, &StepOp::device) != ops.end();
}

Seconds launch_time(const std::vector<StepOp>& ops, const std::vector<double>& counts) {
  Seconds sum;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i].device != kHost)
      sum += (ops[i].cost.overhead - ops[i].cost.serial) * (counts.empty() ? 1.0 : counts[i]);
  return sum;
}

Seconds time_beside_gpus(Seconds mask, Seconds host_work, const std::vector<StepOp>& ops,
                         const std::vector<double>& counts) {
  return mask.value > 0 ? mask + host_work + launch_time(ops, counts) : Seconds{};
}

Seconds host_time(const StepContext& s, const Placement& p, Phase phase, TokenCount tokens,
                  TokenCount sequences) {
  Seconds host = s.runtime.decode.token.value * host_clock_factor(s);
  if (const auto& server = s.runtime.server)
    host += server->step.value + server->sequence.value * double(sequences);
  if (phase == Phase::kDecode) return host;
  return host + runtime_model(s.runtime).embedding_time(s, p, tokens);
}

Seconds prompt_start(const StepContext& s) {
  const auto& start = s.runtime.prefill.start;
  return start ? start->value * host_clock_factor(s) : Seconds{};
}

bool overlaps(const Step& step) {
  return std::ranges::any_of(step.ops, [](const StepOp& op) {
    return op.prefetches() || op.host_part || op.store.value > 0;
  });
}

TokenCount cold_tokens(const StepContext& s, const MemoryPlan& memory, const Batch& batch) {
  return runtime_model(s.runtime).cold_tokens(s, memory, batch);
}

Step decode_step(const StepContext& s, const Placement& p, const MemoryPlan& memory,
                 const Batch& batch, StepGrouping grouping) {
  const auto sequences = TokenCount(batch.sequences.size());
  StepBuilder builder(s, p, memory, batch, Phase::kDecode, sequences);
  std::vector<StepOp> ops = layers_of(s, p, builder, Phase::kDecode, grouping);
  ops.push_back(builder.head(p.head_on, sequences));
  apply_last_level_cache(s, ops, {});
  add_handoffs(s, ops);

  Step step;
  step.ops = group_layers(s, ops, grouping);
  step.host_work = host_time(s, p, Phase::kDecode, batch.tokens(), sequences) +
                   mask_time(s, mask_pairs(s, batch));
  step.page_in = page_in(s, p, memory, batch);
  step.sample = sample_time(s, p.head_on, sequences);
  step.logits_from = p.head_on;
  if (p.head_on != kHost && !s.rig.unified() && !runtime_model(s.runtime).samples_on_gpu())
    step.logits = logits_bytes(s.model) * double(sequences);
  return step;
}

Step prefill_step(const StepContext& s, const Placement& p, const MemoryPlan& memory,
                  const Batch& batch, bool last, StepGrouping grouping) {
  const RuntimeModel& rules = runtime_model(s.runtime);
  const TokenCount tokens = batch.tokens();
  const auto sequences = TokenCount(batch.sequences.size());
  const bool all = s.runtime.logits_at(s.settings.build_year) == LogitsRows::kPrompt;
  const TokenCount rows = !last ? 0 : all ? tokens : sequences - batch.without_logits;
  StepBuilder builder(s, p, memory, batch, Phase::kPrefill, rows);
  std::vector<StepOp> ops = layers_of(s, p, builder, Phase::kPrefill, grouping);
  const DeviceIndex head = rules.prompt_head(p);
  if (last) ops.push_back(builder.head(head, rows));
  add_handoffs(s, ops);

  Step step;
  step.ops = group_layers(s, ops, grouping);
  step.host_work = host_time(s, p, Phase::kPrefill, tokens, sequences) +
                   (last && batch.ends_prompt ? prompt_start(s) : Seconds{});
  const Seconds mask = mask_time(s, mask_pairs(s, batch));
  if (waits_for_host(step.ops, batch, Phase::kPrefill))
    step.host_work += mask;
  else
    step.beside = time_beside_gpus(mask, step.host_work, step.ops, {});
  step.page_in = page_in(s, p, memory, batch);
  if (!last) return step;
  step.sample = sample_time(s, head, sequences);
  step.logits_from = head;
  if (head != kHost && !s.rig.unified()) step.logits = logits_bytes(s.model) * double(sequences);
  const KvTransfer transfer = rules.prompt_kv_transfer(s, p, batch);
  if (transfer.from != kHost) step.logits_from = transfer.from;
  step.logits += transfer.bytes;
  return step;
}

}  // namespace rigcast
