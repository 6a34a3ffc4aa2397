#include "perfmodel/runtimes/contiguous_cache.hpp"

#include <algorithm>
#include <vector>

namespace rigcast {
namespace {

DeviceMemory& device(MemoryPlan& plan, DeviceIndex index) {
  return index == kHost ? plan.devices.back() : plan.devices[std::size_t(index)];
}

// True for the tensors that LayerWeights::ffn_or_experts() counts.
bool is_ffn_or_expert(const ModelSpec& model, const Tensor& t) {
  switch (t.role) {
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
    case TensorRole::kExpertDown: return true;
    case TensorRole::kFfnGate:
    case TensorRole::kFfnUp:
    case TensorRole::kFfnDown: return !model.is_moe_layer(t.layer);
    default: return false;
  }
}

using Cells = std::vector<TokenCount>;  // of every sequence

// What a runtime allocates for a scenario.
struct Allocation : MemoryContext {
  Allocation(const MemoryContext& s, const ContiguousCache& of) : MemoryContext(s), rules(of) {}
  const ContiguousCache& rules;
};

double sequences_kv_bytes(const Allocation& s, int layer, const Cells& cells, KvTypes types) {
  const double per_cell = kv_bytes_per_token(s.model, layer, types);
  double bytes = state_bytes(s.model, layer) * double(cells.size());
  for (const TokenCount count : cells)
    bytes += per_cell * double(s.rules.layer_cells(s, layer, count));
  return bytes;
}

// KV bytes on each device when `cells` tokens are held.
void add_kv(const Allocation& s, const Placement& p, const Cells& cells, KvTypes types,
            bool on_host, MemoryPlan& plan) {
  for (int l = 0; l < s.model.layers; ++l) {
    const DeviceIndex at = on_host ? kHost : p.layers[std::size_t(l)].kv;
    const auto* shared = at == kHost || !s.rig.gpus[std::size_t(at)].shared
                             ? nullptr
                             : &*s.rig.gpus[std::size_t(at)].shared;
    const Bytes bytes{sequences_kv_bytes(s, l, cells, types)};
    device(plan, at).kv += bytes * double(shared ? shared->kv_copies : 1);
  }
}

double max_kv(const Allocation& s, const Cells& cells) {
  double largest = 0;
  for (int l = 0; l < s.model.layers; ++l)
    largest = std::max(largest, sequences_kv_bytes(s, l, cells, s.kv.types));
  return largest;
}

// Reserves space for the KV of `layers` layers on every GPU for which `needs` holds.
template <class Needs>
void add_kv_room(const Allocation& s, const Cells& cells, int layers, Needs needs,
                 MemoryPlan& plan) {
  const Bytes room{max_kv(s, cells) * layers};
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g)
    if (needs(DeviceIndex(g))) plan.devices[g].staging += room;
}

int kv_ring_layers(const Allocation& s) {
  return std::max(1, s.kv.prefetch ? s.runtime.decode.prefetch_depth : 1);
}

// Attention on a GPU over KV in RAM needs a ring buffer of staged layers, or room for copies in its
// compute buffer.
void add_kv_ring(const Allocation& s, const Placement& p, const Cells& cells, MemoryPlan& plan) {
  if (s.rig.unified() || s.runtime.copies_ram_cache) return;
  const auto reads_ram = [&](DeviceIndex g) {
    return std::ranges::any_of(p.layers, [&](const LayerPlacement& l) {
      const bool in_prefill = l.prefill_on == g && !s.runtime.prefill.cpu_attention;
      return l.kv == kHost && (in_prefill || l.decode_cache_on == g);
    });
  };
  add_kv_room(s, cells, kv_ring_layers(s), reads_ram, plan);
}

// The prompts' cache of `cells`, which a GPU holds until the host decodes with a copy of it.
void add_prompt_cache(const Allocation& s, const Placement& p, const Cells& cells,
                      MemoryPlan& plan) {
  for (int l = 0; l < s.model.layers; ++l) {
    const LayerPlacement& at = p.layers[std::size_t(l)];
    if (at.prefill_on == kHost || at.kv != kHost) continue;
    device(plan, at.prefill_on).staging += Bytes{sequences_kv_bytes(s, l, cells, s.kv.types)};
  }
}

// True if the layer keeps the KV of every token: it has no window, and its state is not of fixed
// size.
bool grows(const ModelSpec& model, int layer) {
  return model.has_kv(layer) && model.sees_all_tokens(layer);
}

// The number of tokens of all sequences, in whole blocks, whose KV every GPU can hold below the
// threshold.
TokenCount resident_capacity(const Allocation& s, const Placement& p, std::size_t sequences,
                             const MemoryPlan& plan) {
  double fewest = 1e18;
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    double per_token = 0;
    // Layers with a window have a cache of fixed size from the start.
    double windows = 0;
    for (int l = 0; l < s.model.layers; ++l) {
      if (p.layers[std::size_t(l)].kv != DeviceIndex(g)) continue;
      if (grows(s.model, l)) per_token += kv_bytes_per_token(s.model, l, s.kv.types);
      const Cells limits(sequences, grows(s.model, l) ? 0 : s.context);
      windows += sequences_kv_bytes(s, l, limits, s.kv.types);
    }
    if (per_token <= 0) continue;
    const Bytes usable = plan.devices[g].capacity - s.rig.vram_reserved.value;
    const Bytes taken = plan.devices[g].needed() - s.rig.vram_reserved.value + Bytes{windows};
    const double room = usable.value * s.kv.threshold - taken.value;
    fewest = std::min(fewest, std::max(0.0, room / per_token));
  }
  const auto tokens = TokenCount(std::min(fewest, 1e12));
  return tokens / s.kv.block_tokens * s.kv.block_tokens;
}

void add_paged_kv(const Allocation& s, const Placement& p, const Batch& batch, MemoryPlan& plan) {
  plan.resident_tokens = resident_capacity(s, p, batch.sequences.size(), plan);
  const TokenCount capacity = resident_share(*plan.resident_tokens, batch, s.kv.block_tokens);
  Cells hot;
  TokenCount cold = 0;
  for (const Sequence& sequence : batch.sequences) {
    const TokenCount length = sequence.length(), held = std::min(length, capacity);
    hot.push_back(std::max(held, std::min(length, s.kv.hot_tokens)));
    cold += read_cells(length - held, s.kv.block_tokens);
  }
  add_kv(s, p, hot, s.kv.types, false, plan);
  for (int l = 0; l < s.model.layers; ++l)
    if (grows(s.model, l))
      plan.devices.back().kv +=
          Bytes{double(cold) * kv_bytes_per_token(s.model, l, s.kv.cold_types())};
}

}  // namespace

void ContiguousCache::add_cache(const MemoryContext& context, const Placement& p,
                                const Batch& batch, MemoryPlan& plan) const {
  const Allocation s(context, *this);
  Cells cells, prompts;
  for (const Sequence& sequence : batch.sequences) {
    cells.push_back(this->cells(s, sequence.length()));
    prompts.push_back(this->cells(s, sequence.depth + sequence.prompt));
  }
  const auto has_weights = [&](DeviceIndex g) {
    return plan.devices[std::size_t(g)].weights.value > 0;
  };
  if (evicts(s.kv.policy)) {
    add_kv_room(s, {s.kv.block_tokens * 8}, kv_ring_layers(s), has_weights, plan);
    add_paged_kv(s, p, batch, plan);
  } else {
    const bool leaves = s.kv.policy == KvPolicy::kStream;
    add_kv(s, p, cells, leaves ? s.kv.cold_types() : s.kv.types, leaves, plan);
    if (keeps_prompt_cache_on_gpu() && p.host_decodes())
      add_prompt_cache(s, p, prompts, plan);
    else
      add_kv_ring(s, p, cells, plan);
  }
}

TokenCount ContiguousCache::cold_tokens(const StepContext& s, const MemoryPlan& memory,
                                        const Batch& batch) const {
  if (!memory.resident_tokens) return 0;
  const TokenCount resident = resident_share(*memory.resident_tokens, batch, s.kv.block_tokens);
  TokenCount cold = 0;
  for (const Sequence& sequence : batch.sequences) {
    const TokenCount length = sequence.length(), rest = std::max<TokenCount>(0, length - resident);
    cold += std::min(length, read_cells(rest, s.kv.block_tokens));
  }
  return cold;
}

// Streamed weights pass through buffers in VRAM: one matrix at a time, or whole prefetched layers.
void ContiguousCache::add_weight_buffers(const MemoryContext& s, const Placement& p,
                                         MemoryPlan& plan) const {
  if (s.rig.unified()) return;
  const bool prefetches = s.runtime.prefill.overlap || s.runtime.decode.prefetch_depth > 0;
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    const auto here = [&](DeviceIndex d) { return d == DeviceIndex(g); };
    double layer = 0;
    double matrix = 0;
    for (const Tensor& t : s.tensors.tensors) {
      if (t.layer < 0 || t.layer >= s.model.layers) continue;
      const LayerPlacement& at = p.layers[std::size_t(t.layer)];
      const bool expert = is_ffn_or_expert(s.model, t);
      const bool in_prefill =
          here(at.prefill_on) && s.runtime.prefill.streams && s.settings.op_offload;
      const bool in_decode = here(expert ? at.decode_experts_on : at.decode_on);
      if ((expert ? at.experts : at.weights) != kHost || !(in_prefill || in_decode)) continue;
      matrix = std::max(matrix, double(t.bytes));
      const LayerWeights& w = s.tensors.layers[std::size_t(t.layer)];
      const double shared = at.weights == kHost ? double(w.rest()) : 0;
      layer = std::max(layer, shared + (at.experts == kHost ? double(w.ffn_or_experts()) : 0));
    }
    const double layers = layer * s.runtime.decode.prefetch_buffers();
    plan.devices[g].staging += Bytes{prefetches ? layers : matrix};
  }
}

ComputeStages compute_stages(const MemoryContext& s, TokenCount batch, bool holds_head) {
  const double rows = double(batch);
  const double context = double(s.context);
  double logits_rows = 1;
  const LogitsRows logits_of = s.runtime.logits_at(s.settings.build_year);
  if (logits_of == LogitsRows::kUbatch) logits_rows = rows;
  if (logits_of == LogitsRows::kPrompt) logits_rows = double(s.longest_prompt.tokens);
  const double mask = rows * context * (s.settings.flash_attention ? 2.0 : 4.0);
  const double scores =
      s.settings.flash_attention ? 0.0 : double(s.model.heads) * context * rows * 4.0;
  const double qkv =
      rows * 4.0 * double(s.model.heads + 2 * s.model.kv_heads) * double(s.model.head_dim);
  double inner = double(s.model.ffn);
  if (s.model.moe)
    inner = std::max(inner, double(s.model.moe->experts_used * s.model.moe->expert_ffn +
                                   s.model.moe->shared_ffn));
  const double ffn = rows * 4.0 * inner * (s.model.gated_ffn ? 2.0 : 1.0) + mask;
  const double logits = holds_head ? logits_rows * logits_bytes(s.model).value : 0.0;
  return {hidden_bytes(s.model) * rows, Bytes{scores + qkv + mask}, Bytes{ffn}, Bytes{logits}};
}

TokenCount largest_batch(const MemoryContext& s) {
  return std::clamp<TokenCount>(s.context, 1, s.settings.ubatch);
}

Bytes compute_buffer(const MemoryContext& s, bool holds_head) {
  return compute_stages(s, largest_batch(s), holds_head).buffer();
}

Bytes ContiguousCache::compute_buffers(const MemoryContext& s, const Placement& p,
                                       DeviceIndex device, bool works) const {
  const bool holds_head = p.head == device;
  return works || holds_head ? compute_buffer(s, holds_head) : Bytes{};
}

}  // namespace rigcast
