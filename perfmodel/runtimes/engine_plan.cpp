#include "perfmodel/runtimes/engine_plan.hpp"

#include <algorithm>
#include <array>

#include "core/model/traffic.hpp"
#include "core/scenario/engine_memory.hpp"
#include "perfmodel/prefill_device.hpp"

namespace rigcast {
namespace {

constexpr TokenCount kMostTokens = 1'000'000'000'000;  // that stay where no cache leaves a GPU

TokenCount blocks_of(const Scenario& s, TokenCount tokens) {
  return read_cells(tokens, s.kv.block_tokens) / s.kv.block_tokens;
}

// Tokens that the cache has before the first is decoded.
TokenCount prompt_end(const Scenario& s) { return s.workload.depth + s.workload.prompt_tokens; }

// Of one layer and one block. All layers keep all tokens, those with a window as well.
double block_bytes(const Scenario& s, int layer, KvTypes types) {
  return double(s.kv.block_tokens) * kv_bytes_per_token(s.model, layer, types);
}

bool changes_type(const Scenario& s) {
  const KvTypes cold = s.kv.cold_types();
  return cold.k != s.kv.types.k || cold.v != s.kv.types.v;
}

// The layer's cache leaves its GPU by blocks.
bool leaves(const Scenario& s) {
  switch (s.kv.policy) {
    case KvPolicy::kStream: return !s.rig.unified();
    case KvPolicy::kPaged:
    case KvPolicy::kCombined: return true;
    default: return false;
  }
}

// Whose memory attention finds the layer's newest tokens in.
DeviceIndex cache_device(const Scenario& s, const Placement& p, int layer) {
  const LayerPlacement& l = p.layers[std::size_t(layer)];
  return s.rig.unified() ? l.kv : l.decode_cache_on;
}

// What a GPU keeps of the cache, in blocks of all its layers.
struct GpuCache {
  int layers = 0;
  double block = 0;       // bytes, in the cache's types
  double cold_block = 0;  // bytes of what has left
  double cold_layer = 0;  // of its largest layer
  double layer = 0;       // the same in the cache's types
};

GpuCache gpu_cache(const Scenario& s, const Placement& p, DeviceIndex gpu) {
  GpuCache c;
  for (int l = 0; l < s.model.layers; ++l) {
    if (cache_device(s, p, l) != gpu || !s.model.has_kv(l)) continue;
    const double hot = block_bytes(s, l, s.kv.types), cold = block_bytes(s, l, s.kv.cold_types());
    ++c.layers;
    c.block += hot;
    c.cold_block += cold;
    c.layer = std::max(c.layer, hot);
    c.cold_layer = std::max(c.cold_layer, cold);
  }
  return c;
}

// Kernels find a block by lists: one of each layer where blocks leave, else one of all.
double list_bytes(const Scenario& s, const GpuCache& c) {
  const int lists = leaves(s) ? std::max(1, c.layers) : 1;
  return double(lists) * double(kMostKvBlocks) * sizeof(void*);
}

// What cold blocks take of the GPU on their way out and back.
double ring_bytes(const Scenario& s, const GpuCache& c, TokenCount cold) {
  const KvRing ring = kv_ring(cold, c.layers, std::int64_t(c.cold_layer));
  const double slots = double(ring.blocks) * ring.layers() * c.cold_layer;
  return slots + (changes_type(s) ? double(ring.blocks) * c.layer + c.cold_block : 0);
}

// Blocks that the longest batch writes. As many are on their way out while it does.
TokenCount batch_blocks(const Scenario& s) {
  const Workload& w = s.workload;
  const TokenCount longest = std::max(w.depth, w.prompt_tokens);
  return blocks_of(s, std::clamp<TokenCount>(longest, 1, s.settings.ubatch));
}

struct Shares {
  TokenCount on_gpu = 0, cold = 0;  // blocks
};

// `hot`: blocks that are to stay. Of the others those leave that are full. Batches need the most
// room, as long as there are any; then tokens, which write one block.
Shares shares_of(const Scenario& s, TokenCount cached, TokenCount hot) {
  const auto held = [&](TokenCount tokens, TokenCount step) {
    return std::min(blocks_of(s, tokens), std::max(hot, step) + step);
  };
  const TokenCount full = cached / s.kv.block_tokens;
  return {std::max(held(std::min(cached, prompt_end(s)), batch_blocks(s)), held(cached, 1)),
          std::clamp<TokenCount>(blocks_of(s, cached) - hot, 0, std::max<TokenCount>(0, full))};
}

double gpu_bytes(const Scenario& s, const GpuCache& c, TokenCount cached, TokenCount hot) {
  const Shares shares = shares_of(s, cached, hot);
  return double(shares.on_gpu) * c.block + list_bytes(s, c) + ring_bytes(s, c, shares.cold);
}

// Blocks that may stay on a GPU for all to be below the threshold while `cached` tokens come.
TokenCount hot_blocks(const Scenario& s, const GpuCache& c, const DeviceMemory& gpu,
                      TokenCount cached) {
  const Bytes others = s.rig.vram_reserved.value;
  const double usable = (gpu.capacity - others).value * s.kv.threshold;
  const double room = usable - (gpu.needed() - others).value;
  const auto most = TokenCount(std::clamp((room - list_bytes(s, c)) / c.block, 0.0, 1e9));
  if (most >= blocks_of(s, cached)) return most;
  TokenCount hot = most;
  while (hot > 0 && gpu_bytes(s, c, cached, hot) > room) --hot;
  return hot;
}

// The fewest of all GPUs.
TokenCount resident_tokens(const Scenario& s, const Placement& p, TokenCount cached,
                           const MemoryPlan& plan) {
  TokenCount fewest = kMostTokens;
  // As the longest context needs it, whichever of its tokens this is about.
  const TokenCount longest = std::max(cached, s.workload.context);
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    const GpuCache c = gpu_cache(s, p, DeviceIndex(g));
    if (c.layers == 0) continue;
    fewest = std::min(fewest, hot_blocks(s, c, plan.devices[g], longest) * s.kv.block_tokens);
  }
  return fewest;
}

// Of a GPU whose blocks leave beyond `hot` tokens.
void add_leaving(const Scenario& s, const GpuCache& c, TokenCount cached, TokenCount hot,
                 DeviceMemory& gpu, DeviceMemory& host) {
  if (c.layers == 0) return;
  const Shares shares = shares_of(s, cached, blocks_of(s, hot));
  gpu.kv += Bytes{double(shares.on_gpu) * c.block + list_bytes(s, c)};
  gpu.staging += Bytes{ring_bytes(s, c, shares.cold)};
  host.kv += Bytes{double(read_cells(shares.cold, kColdPieceBlocks)) * c.cold_block};
}

// What the host's share of cold blocks is measured with is given back before there are any.
void add_timed_cache(DeviceMemory& host) {
  host.staging += std::max(Bytes{}, Bytes{double(kTimedCacheBytes)} - host.kv);
}

// Caches that stay where they are, all of the host's among them.
void add_staying(const Scenario& s, const Placement& p, TokenCount cached, MemoryPlan& plan) {
  for (int l = 0; l < s.model.layers; ++l) {
    const DeviceIndex at = cache_device(s, p, l);
    const double block = block_bytes(s, l, s.kv.types);
    if (at == kHost || !leaves(s))
      (at == kHost ? plan.devices.back() : plan.devices[std::size_t(at)]).kv +=
          Bytes{double(blocks_of(s, cached)) * block};
    // Where the host decodes, a GPU keeps what prompts have given.
    const DeviceIndex gpu = p.layers[std::size_t(l)].weights;
    if (p.host_decodes() && gpu != kHost && !s.rig.unified())
      plan.devices[std::size_t(gpu)].kv +=
          Bytes{double(blocks_of(s, std::min(cached, prompt_end(s)))) * block};
  }
}

// Matrices of a layer that a product takes side by side: they are written out as halves together.
constexpr std::array<std::array<TensorRole, 3>, 4> kJoined = {{
    {TensorRole::kAttentionQ, TensorRole::kAttentionK, TensorRole::kAttentionV},
    {TensorRole::kAttentionOutput, TensorRole::kAttentionOutput, TensorRole::kAttentionOutput},
    {TensorRole::kFfnGate, TensorRole::kFfnUp, TensorRole::kFfnUp},
    {TensorRole::kFfnDown, TensorRole::kFfnDown, TensorRole::kFfnDown},
}};

// The GPU computes the layer, in prompts at least.
bool computes_layer(const Placement& p, int layer, DeviceIndex gpu) {
  const LayerPlacement& l = p.layers[std::size_t(layer)];
  if (l.weights != kHost) return l.weights == gpu;
  return l.decode_on == gpu || (p.lends(layer) && l.prefill_on == gpu);
}

// The largest product's weights as halves; 0 where they are halves.
double halves_bytes(const Scenario& s, const Placement& p, DeviceIndex gpu) {
  std::vector<std::array<double, kJoined.size()>> elements(std::size_t(s.model.layers)),
      halves(elements);
  for (const Tensor& t : s.tensors.tensors) {
    if (t.layer < 0 || t.layer >= s.model.layers || !computes_layer(p, t.layer, gpu)) continue;
    for (std::size_t j = 0; j < kJoined.size(); ++j) {
      if (std::ranges::find(kJoined[j], t.role) == kJoined[j].end()) continue;
      elements[std::size_t(t.layer)][j] += double(t.elements());
      if (t.format == QuantFormat::kF16) halves[std::size_t(t.layer)][j] += double(t.elements());
    }
  }
  double most = 0;
  for (std::size_t l = 0; l < elements.size(); ++l)
    for (std::size_t j = 0; j < kJoined.size(); ++j)
      if (halves[l][j] < elements[l][j]) most = std::max(most, 2.0 * elements[l][j]);
  return most;
}

bool is_expert(TensorRole role) {
  using enum TensorRole;
  return role == kExpertGate || role == kExpertUp || role == kExpertDown;
}

// What a layer's experts are in formats that a batch takes in groups.
bool takes_groups(QuantFormat format) {
  using enum QuantFormat;
  switch (format) {
    case kQ4_0:
    case kQ4_1:
    case kQ5_0:
    case kQ5_1:
    case kQ8_0:
    case kQ4_K:
    case kQ5_K:
    case kQ6_K: return true;
    default: return false;
  }
}

// Of the layer, whose experts the host keeps: a GPU computes those of a batch.
bool lends_experts(const Scenario& s, const Placement& p, int layer, DeviceIndex gpu) {
  const LayerPlacement& l = p.layers[std::size_t(layer)];
  if (l.experts != kHost || l.decode_experts_on != kHost || l.prefill_on != gpu) return false;
  return s.model.is_moe_layer(layer) && (l.weights == gpu || l.decode_on == gpu || p.lends(layer));
}

// One expert's bytes in the layer where they are most, of those whose experts are lent.
double lent_expert_bytes(const Scenario& s, const Placement& p, DeviceIndex gpu) {
  std::vector<double> bytes(std::size_t(s.model.layers));
  for (const Tensor& t : s.tensors.tensors) {
    if (t.layer < 0 || t.layer >= s.model.layers || !is_expert(t.role)) continue;
    if (lends_experts(s, p, t.layer, gpu) && takes_groups(t.format))
      bytes[std::size_t(t.layer)] += double(t.bytes);
  }
  const double most = bytes.empty() ? 0 : *std::ranges::max_element(bytes);
  return s.model.moe ? most / s.model.moe->experts : 0;
}

double expert_slot_bytes(const Scenario& s, double one) {
  return one > 0 ? std::max(one, std::min(double(kExpertSlotBytes), one * s.model.moe->experts))
                 : 0;
}

// The largest layer of those that are copied for tokens, or may be for a batch. Experts come with
// the layers that are copied for tokens; to a batch they come by themselves.
double streamed_layer_bytes(const Scenario& s, const Placement& p, DeviceIndex gpu) {
  double most = 0;
  for (int l = 0; l < s.model.layers; ++l) {
    const LayerPlacement& at = p.layers[std::size_t(l)];
    if (at.weights != kHost || !computes_layer(p, l, gpu)) continue;
    const LayerWeights& w = s.tensors.layers[std::size_t(l)];
    const bool experts = at.decode_experts_on == gpu;
    most = std::max(most, double(w.attention.bytes() + w.ffn.bytes()) +
                              (experts ? double(w.experts.bytes()) : 0.0));
  }
  return most;
}

// Vectors of as many tokens as a batch may have, whatever the prompt.
double gpu_vector_bytes(const Scenario& s, bool copies_experts) {
  constexpr double kFloat = 4, kHalf = 2;
  constexpr double kRounded = 1 + kFloat / 32 + kFloat / 16;  // with scales and sums
  const ModelSpec& m = s.model;
  const double n = s.settings.ubatch, hidden = double(m.hidden);
  const double q = double(m.heads * m.head_dim), kv = double(m.kv_heads * m.head_dim);
  const double expert = m.moe ? double(m.moe->expert_ffn) : 0, dense = double(m.ffn);
  bool has_dense = false;
  for (int l = 0; l < m.layers; ++l) has_dense = has_dense || !m.is_moe_layer(l);
  const double middle = std::max(has_dense ? dense : 0, expert);
  double bytes = n * (hidden * (2 * kFloat + kRounded) + (q + 2 * kv) * kFloat + q * kHalf +
                      double(m.head_dim) * kFloat);
  bytes += n * (std::max({hidden, q, middle}) + 2 * middle) * kHalf;
  double between = has_dense ? std::min<double>(n, kMostShortBatch) * dense : 0;
  if (m.moe) {
    const double routed = std::min<double>(n, copies_experts ? kMostRoutedToCopied : kMostRouted);
    const double choices = routed * m.moe->experts_used;
    between = std::max(between, choices * expert);
    bytes += choices * (expert * kHalf + hidden * kFloat) + routed * m.moe->experts * kFloat;
  }
  return bytes + between * kFloat + double(m.vocabulary) * kFloat;
}

bool host_computes(const Scenario& s, const Placement& p) {
  return p.head_on == kHost || (s.kv.policy == KvPolicy::kCombined && !s.rig.unified()) ||
         std::ranges::any_of(p.layers, [](const LayerPlacement& l) {
           return l.decode_on == kHost || l.decode_experts_on == kHost ||
                  l.decode_cache_on == kHost;
         });
}

// Tokens of the host's longest turn. Its layers and caches go by batches; the head and cold blocks
// by tokens; so do experts whose batches a GPU computes, once the host was timed.
TokenCount host_rows(const Scenario& s, const Placement& p) {
  const TokenCount batch = std::clamp<TokenCount>(s.workload.prompt_tokens, 1, s.settings.ubatch);
  if (p.host_decodes()) return batch;  // it looks up the prompt's embeddings, too
  TokenCount rows = 1;
  for (const LayerPlacement& l : p.layers) {
    if (l.weights == kHost ? l.decode_on == kHost : s.kv.policy == KvPolicy::kRam) return batch;
    if (!s.model.moe || l.experts != kHost || l.decode_experts_on != kHost) continue;
    const bool lent = l.prefill_on != kHost && lent_expert_bytes(s, p, l.prefill_on) > 0;
    rows = std::max(rows, lent ? timed_tokens(s.model, s.settings.ubatch) : batch);
  }
  return rows;
}

// One step: the tokens [from, to).
struct Tokens {
  TokenCount from = 0, to = 0;
};

// The one before, back to the first of the context: batches up to the depth, then the prompt's,
// then token after token.
Tokens step_before(const Scenario& s, TokenCount from) {
  const Workload& w = s.workload;
  if (from > prompt_end(s)) return {from - 1, from};
  const TokenCount begin = from > w.depth ? w.depth : 0;
  return {begin + (from - begin - 1) / s.settings.ubatch * s.settings.ubatch, from};
}

bool takes_blocks(const Scenario& s, const Tokens& step) {
  return blocks_of(s, step.to) > blocks_of(s, step.from);
}

// The last step of those up to `step` that took new blocks.
Tokens taking_blocks(const Scenario& s, Tokens step) {
  while (step.from > 0 && !takes_blocks(s, step)) {
    const TokenCount block = (step.from - 1) / s.kv.block_tokens * s.kv.block_tokens;
    step =
        step_before(s, step.from > prompt_end(s) ? std::max(prompt_end(s), block) + 1 : step.from);
  }
  return step;
}

}  // namespace

TokenCount engine_cold_tokens(const Scenario& s, TokenCount hot, TokenCount from, TokenCount to) {
  const Tokens last = taking_blocks(s, {from, to});
  if (last.from == 0) return 0;
  const Tokens before = taking_blocks(s, step_before(s, last.from));
  const TokenCount left =
      std::min(blocks_of(s, before.to) - blocks_of(s, hot), before.from / s.kv.block_tokens);
  return std::max<TokenCount>(0, left) * s.kv.block_tokens;
}

int engine_embeddings(const Scenario& s, const Placement& p) {
  if (!s.tensors.head_is_embedding) return 1;
  const bool rows = p.host_decodes() || p.layers.front().decode_on == kHost;
  return p.head_on == kHost ? (rows ? 1 : 2) : (rows ? 1 : 0);
}

Bytes engine_buffers(const Scenario& s, const Placement& p, DeviceIndex device) {
  if (device == kHost) {
    if (!host_computes(s, p)) return {};
    const double own = cpu_buffer_bytes(s.model, double(host_rows(s, p)));
    if (s.rig.gpus.empty()) return {own};
    return {own + double(message_floats(s.model)) * sizeof(float) * s.settings.ubatch};
  }
  const bool copies_experts = lent_expert_bytes(s, p, device) > 0;
  return {gpu_vector_bytes(s, copies_experts) + halves_bytes(s, p, device) +
          double(kBlasWorkspaceBytes)};
}

Bytes engine_untouched(const Scenario& s, const Placement& p) {
  // By a batch of this many the host is timed; one that decodes alone is not.
  const TokenCount kept = p.host_decodes() ? 1 : timed_tokens(s.model, s.settings.ubatch);
  const TokenCount rows = host_rows(s, p);
  const BatchShape batch{s.workload.depth, rows};
  bool lends = false;
  for (int l = 0; l < s.model.layers; ++l) {
    if (!p.lends(l) && !p.host_decodes() && s.kv.policy != KvPolicy::kRam) continue;
    if (prefill_device(s, p, batch, l) == kHost) return {};
    lends = true;
  }
  if (!lends || rows <= kept) return {};
  // A batch's hidden states are the host's own: it looks them up.
  const double hidden = hidden_bytes(s.model).value * double(rows - kept);
  const double all = engine_buffers(s, p, kHost).value;
  return Bytes{std::max(0.0, all - double(kept) / double(rows) * all - hidden)};
}

bool engine_loads_cublas(const Scenario& s, const Placement& p) {
  if (s.settings.ubatch > kMostShortBatch) return true;
  const TokenCount batch = std::clamp<TokenCount>(s.workload.prompt_tokens, 1, s.settings.ubatch);
  if (batch <= kFewTokens) return false;
  std::vector<bool> has_floats(std::size_t(s.model.layers));
  for (const Tensor& t : s.tensors.tensors)
    if (t.layer >= 0 && t.layer < s.model.layers && t.dimensions > 1 &&
        t.role != TensorRole::kRouter && info(t.format).block_elements == 1)
      has_floats[std::size_t(t.layer)] = true;
  for (int l = 0; l < s.model.layers; ++l)
    if (prefill_device(s, p, {s.workload.depth, batch}, l) != kHost && has_floats[std::size_t(l)])
      return true;
  return false;
}

void add_engine_streams(const Scenario& s, const Placement& p, MemoryPlan& plan) {
  if (s.rig.unified()) return;
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    const auto gpu = DeviceIndex(g);
    double lent_cache = 0;
    for (int l = 0; l < s.model.layers; ++l)
      if (p.lends(l) && p.layers[std::size_t(l)].prefill_on == gpu)
        lent_cache = std::max(lent_cache, block_bytes(s, l, s.kv.types));
    // Two slots take blocks of a file in turn; one set of planes is what they become.
    const double weights =
        3 * (streamed_layer_bytes(s, p, gpu) + expert_slot_bytes(s, lent_expert_bytes(s, p, gpu)));
    const double caches = 2 * double(blocks_of(s, prompt_end(s))) * lent_cache;
    plan.devices[g].staging += Bytes{weights + caches};
  }
}

void add_engine_kv(const Scenario& s, const Placement& p, TokenCount cached, MemoryPlan& plan) {
  add_staying(s, p, cached, plan);
  DeviceMemory& host = plan.devices.back();
  const auto gpus = plan.devices.size() - 1;
  if (!leaves(s)) {
    for (std::size_t g = 0; g < gpus; ++g)
      if (plan.devices[g].activations.value > 0) plan.devices[g].kv += Bytes{list_bytes(s, {})};
    return;
  }
  TokenCount hot = 0;
  if (s.kv.policy != KvPolicy::kStream) {
    plan.resident_tokens = resident_tokens(s, p, cached, plan);
    hot = std::max(*plan.resident_tokens, s.kv.hot_tokens);
  }
  for (std::size_t g = 0; g < gpus; ++g)
    add_leaving(s, gpu_cache(s, p, DeviceIndex(g)), cached, hot, plan.devices[g], host);
  if (s.kv.policy == KvPolicy::kCombined && !s.rig.unified()) add_timed_cache(host);
}

}  // namespace rigcast
