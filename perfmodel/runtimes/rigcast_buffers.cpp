#include "perfmodel/runtimes/rigcast_buffers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/scenario/batch_limits.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "perfmodel/cost/block_products.hpp"
#include "perfmodel/runtimes/prefill_devices.hpp"
#include "perfmodel/runtimes/rigcast_policy.hpp"

namespace rigcast {
namespace {

// Matrices of a layer that one product multiplies: they are written out as FP16 together. Mirrors
// for_each_product (engine/backends/cuda/forward/joined_matrices.hpp).
constexpr std::array<std::array<TensorRole, 3>, 7> kJoinedRoles = {{
    {TensorRole::kAttentionQ, TensorRole::kAttentionK, TensorRole::kAttentionV},
    {TensorRole::kAttentionOutput, TensorRole::kAttentionOutput, TensorRole::kAttentionOutput},
    {TensorRole::kFfnGate, TensorRole::kFfnUp, TensorRole::kFfnUp},
    {TensorRole::kFfnDown, TensorRole::kFfnDown, TensorRole::kFfnDown},
    {TensorRole::kSharedGate, TensorRole::kSharedUp, TensorRole::kSharedUp},
    {TensorRole::kSharedDown, TensorRole::kSharedDown, TensorRole::kSharedDown},
    // One stands for all matrices of a mixer.
    {TensorRole::kRecurrent, TensorRole::kRecurrent, TensorRole::kRecurrent},
}};

// Of latent attention, by name: what is multiplied with its queries, and three more products.
constexpr std::size_t kProducts = kJoinedRoles.size() + 3;

// The product of a matrix.
std::optional<std::size_t> product_of(const Tensor& t) {
  constexpr std::pair<std::string_view, std::size_t> kLatent[] = {
      {".attn_q_a.", 0},
      {".attn_kv_a_mqa.", 0},
      {".attn_q_b.", kJoinedRoles.size()},
      {".attn_k_b.", kJoinedRoles.size() + 1},
      {".attn_v_b.", kJoinedRoles.size() + 2}};
  for (std::size_t i = 0; i < kJoinedRoles.size(); ++i)
    if (std::ranges::find(kJoinedRoles[i], t.role) != kJoinedRoles[i].end()) return i;
  for (const auto& [name, product] : kLatent)
    if (t.role == TensorRole::kProjection && t.name.find(name) != std::string::npos) return product;
  return std::nullopt;
}

// True if the GPU computes the layer, at least in prompts.
bool computes_layer(const Placement& p, int layer, DeviceIndex gpu) {
  const LayerPlacement& l = p.layers[std::size_t(layer)];
  if (l.weights != kHost) return l.weights == gpu;
  return l.decode_on == gpu || (p.offloadable(layer) && l.prefill_on == gpu);
}

// Bytes of the largest product's weights as FP16; 0 where all weights are FP16 already. Mirrors
// fp16_weights_for_batch (engine/backends/cuda/forward/batch_products.cu).
double fp16_bytes(const MemoryContext& s, const Placement& p, DeviceIndex gpu) {
  std::vector<std::array<double, kProducts>> elements(std::size_t(s.model.layers)), fp16(elements);
  for (const Tensor& t : s.tensors.tensors) {
    if (t.layer < 0 || t.layer >= s.model.layers || !computes_layer(p, t.layer, gpu)) continue;
    if (t.dimensions < 2) continue;
    const auto j = product_of(t);
    if (!j) continue;
    elements[std::size_t(t.layer)][*j] += double(t.elements());
    if (t.format == QuantFormat::kF16) fp16[std::size_t(t.layer)][*j] += double(t.elements());
  }
  double most = 0;
  for (std::size_t l = 0; l < elements.size(); ++l)
    for (std::size_t j = 0; j < kProducts; ++j)
      if (fp16[l][j] < elements[l][j]) most = std::max(most, 2.0 * elements[l][j]);
  return most;
}

bool is_expert(TensorRole role) {
  using enum TensorRole;
  return role == kExpertGate || role == kExpertUp || role == kExpertDown;
}

// True if a GPU multiplies weights of this format without writing them out: all quant blocks.
// Mirrors supports_small_batch_gemm (engine/kernels/cuda/batch/small_batch_formats.hpp).
bool supports_small_batch_gemm(QuantFormat format) { return info(format).block_elements > 1; }

// By layer: true if all of its experts' matrices can be multiplied in groups. Mirrors
// supports_grouped_gemm (engine/kernels/cuda/batch/small_batch_formats.hpp).
std::vector<bool> layers_with_grouped_gemm(const MemoryContext& s) {
  std::vector<bool> supported(std::size_t(s.model.layers));
  for (int l = 0; l < s.model.layers; ++l) supported[std::size_t(l)] = s.model.is_moe_layer(l);
  for (const Tensor& t : s.tensors.tensors)
    if (t.layer >= 0 && t.layer < s.model.layers && is_expert(t.role) &&
        !supports_small_batch_gemm(t.format))
      supported[std::size_t(t.layer)] = false;
  return supported;
}

// True if the host keeps the layer's experts and a GPU computes them for a batch. Mirrors
// HostPlacement::experts_offloadable (engine/placement/host_placement.hpp).
bool experts_offloadable(const MemoryContext& s, const Placement& p, int layer, DeviceIndex gpu) {
  const LayerPlacement& l = p.layers[std::size_t(layer)];
  if (l.experts != kHost || l.decode_experts_on != kHost || l.prefill_on != gpu) return false;
  return s.model.is_moe_layer(layer) &&
         (l.weights == gpu || l.decode_on == gpu || p.offloadable(layer));
}

// Bytes of one expert in the layer with the largest experts, of the layers whose experts a GPU
// computes for a batch. Mirrors StreamedWeights::layers_with_offloadable_experts
// (engine/backends/cuda/weight_streaming/streamed_weights.cu).
double offloadable_expert_bytes(const MemoryContext& s, const Placement& p, DeviceIndex gpu) {
  if (!s.settings.op_offload) return 0;
  std::vector<double> bytes(std::size_t(s.model.layers));
  const std::vector<bool> supported = layers_with_grouped_gemm(s);
  for (const Tensor& t : s.tensors.tensors) {
    if (t.layer < 0 || t.layer >= s.model.layers || !is_expert(t.role)) continue;
    if (experts_offloadable(s, p, t.layer, gpu) && supported[std::size_t(t.layer)])
      bytes[std::size_t(t.layer)] += double(t.bytes);
  }
  const double most = bytes.empty() ? 0 : *std::ranges::max_element(bytes);
  return s.model.moe ? most / s.model.moe->experts : 0;
}

// Bytes of the largest layer that is copied to the GPU for tokens, or may be for a batch. Layers
// that are copied for tokens include their experts; for a batch experts are copied by themselves.
// Mirrors LayerStream::plans_of (engine/backends/cuda/weight_streaming/layer_stream.cu).
double streamed_layer_bytes(const MemoryContext& s, const Placement& p, DeviceIndex gpu) {
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

constexpr double kFloat = 4, kHalf = 2;
constexpr double kRounded = 1 + kFloat / 32 + kFloat / 16;  // quantized activations with their
                                                            // scales and sums
constexpr double kDraw = 32 << 10;                          // what it takes to draw one token

bool has_dense_layers(const ModelSpec& m) {
  for (int l = 0; l < m.layers; ++l)
    if (!m.is_moe_layer(l)) return true;
  return false;
}

double dense_ffn(const ModelSpec& m) { return has_dense_layers(m) ? double(m.ffn) : 0; }
double shared_ffn(const ModelSpec& m) { return m.moe ? double(m.moe->shared_ffn) : 0; }

// Of the widest dense FFN and the widest expert.
double widest_ffn(const ModelSpec& m) {
  return std::max({dense_ffn(m), m.moe ? double(m.moe->expert_ffn) : 0, shared_ffn(m)});
}

// Widths of the widest layers: of a token's queries, and of its queries, keys and values. Mirrors
// attention_widths (engine/backends/cuda/forward/buffer_sizes.cpp).
struct AttentionWidths {
  double q = 0, all = 0, head = 0;
};
AttentionWidths attention_widths(const ModelSpec& m) {
  AttentionWidths most;
  if (m.mla) {  // queries that are brought to the cache's rows, and such rows
    const double row = double(m.mla->kv_lora_rank + m.mla->qk_rope_dim), q = double(m.heads) * row;
    return {q, q + 2 * row, double(m.mla->qk_rope_dim)};
  }
  for (int layer = 0; layer < m.layers; ++layer) {
    const auto head = double(m.head_dim_of(layer));
    const double q = m.heads * head;
    most = {std::max(most.q, q), std::max(most.all, q + 2 * m.kv_heads_of(layer) * head),
            std::max(most.head, head)};
  }
  return most;
}

// The most parts of a token's attention. Mirrors most_attention_splits
// (engine/kernels/cuda/attention/most_splits.hpp).
int attention_splits(const ModelSpec& m, int units, bool fp16) {
  constexpr int kLatentHeads = 16;  // of a thread block
  if (m.mla) return std::max(1, 2 * units / ((m.heads + kLatentHeads - 1) / kLatentHeads));
  int most = 1;
  for (int layer = 0; layer < m.layers; ++layer) {
    const std::int64_t head = m.head_dim_of(layer);
    const int blocks = (fp16 ? 2 : 3) - (head > 128 ? 1 : 0);
    most = std::max(most, blocks * units / (m.kv_heads_of(layer) * (head > 256 ? 2 : 1)));
  }
  return most;
}

// Mirrors latent_sizes (engine/backends/cuda/forward/buffer_sizes.cpp).
struct LatentSizes {
  double projected = 0, input = 0, values = 0;
};
LatentSizes latent_sizes(const ModelSpec& m) {
  if (!m.mla) return {};
  const LatentAttention& a = *m.mla;
  const double heads = m.heads, values = heads * double(a.v_dim);
  return {double(a.q_lora_rank + a.kv_lora_rank + a.qk_rope_dim) +
              heads * double(a.qk_nope_dim + a.qk_rope_dim),
          std::max({double(a.q_lora_rank), heads * double(a.qk_nope_dim),
                    heads * double(a.kv_lora_rank), values}),
          values};
}

// Bytes of the buffers of a step of one token, except logits: partial attention by as many thread
// blocks as fill the GPU, and one for the host's. Mirrors allocate_token_buffers
// (engine/backends/cuda/forward/buffers.cu) and attention_splits
// (engine/kernels/cuda/attention/decode_attention.cu).
double token_buffer_bytes(const MemoryContext& s, DeviceIndex gpu) {
  const ModelSpec& m = s.model;
  const double q = attention_widths(m).q;
  const LatentSizes latent = latent_sizes(m);
  const double of_experts = m.moe ? double(m.moe->experts_used) * double(m.moe->expert_ffn) : 0;
  const double ffn = std::max({dense_ffn(m), of_experts + shared_ffn(m), latent.values});
  const int units = s.rig.gpus[std::size_t(gpu)].units.value_or(0);
  const bool fp16 = s.kv.types.k == QuantFormat::kF16 && s.kv.types.v == QuantFormat::kF16;
  const int splits = 1 + attention_splits(m, units, fp16);
  return (std::max(q, latent.input) + ffn) * (kFloat + kRounded) +
         splits * (q + 2.0 * m.heads) * kFloat + kDraw;
}

// Bytes of the activation buffers for a full ubatch, whatever the prompt's length. Mirrors
// activation_sizes, prefill_sizes and small_batch_sizes
// (engine/backends/cuda/forward/buffer_sizes.cpp).
double gpu_vector_bytes(const MemoryContext& s, bool copies_experts) {
  constexpr double kId = 4;
  const ModelSpec& m = s.model;
  const double n = s.settings.ubatch, hidden = double(m.hidden);
  const AttentionWidths widths = attention_widths(m);
  const double q = widths.q;
  const LatentSizes latent = latent_sizes(m);
  const double expert = m.moe ? double(m.moe->expert_ffn) : 0;
  const double middle = widest_ffn(m);
  // Of a recurrent layer what its matrices give, and what is convolved of it once more.
  constexpr double kConvolved = 0.25;
  const double mixed =
      m.recurrent
          ? (1 + kConvolved) *
                double(m.recurrent->layer_parameters - m.recurrent->layer_f32_parameters) / hidden
          : 0;
  double bytes = n * mixed * kFloat;
  bytes += n * (hidden * (2 * kFloat + kRounded) + std::max(widths.all, latent.projected) * kFloat +
                q * kHalf + widths.head * kFloat + kId);
  bytes += n * (std::max({hidden, q, latent.input, middle}) + 2 * middle) * kHalf;
  constexpr double kOwnInputRows = 64;  // of layers' inputs: read at once
  bytes += (n + std::min(n, kOwnInputRows)) * double(m.layers * m.layer_embedding) * kFloat;
  double between = std::min<double>(n, kMaxSmallBatch) * std::max(dense_ffn(m), shared_ffn(m));
  const std::vector<bool> grouped = layers_with_grouped_gemm(s);
  if (std::ranges::find(grouped, true) != grouped.end()) {
    const double routed =
        std::min<double>(n, copies_experts ? kMaxRoutedTokensStreamed : kMaxRoutedTokens);
    const double choices = routed * m.moe->experts_used;
    constexpr double kTileColumns = 256;  // of experts' activations: in whole tiles
    const double tiled = std::ceil(expert / kTileColumns) * kTileColumns;
    between = std::max(between, choices * tiled);
    bytes +=
        choices * (tiled * kHalf + hidden * kFloat + 3 * kId) + routed * m.moe->experts * kFloat;
  }
  return bytes + between * kFloat + double(m.vocabulary) * kFloat;
}

// True if a batch executor (engine/run/batch_executor.hpp) computes, which serves many sequences.
bool serves_steps(const MemoryContext& s) { return s.has_load && s.scheduler; }

double step_sequences(const MemoryContext& s) {
  return double(std::min<std::int64_t>(std::int64_t(s.scheduler->sequences), s.settings.ubatch));
}

// Bytes that the steps of many sequences take on the host beyond those of their tokens. Mirrors
// further_buffer_bytes (engine/backends/cpu/batch/batch_bytes.cpp).
double further_host_bytes(const MemoryContext& s, const Placement& p) {
  if (!serves_steps(s)) return 0;
  const ModelSpec& m = s.model;
  double bytes = 0;
  if (p.head_on == kHost) bytes += (step_sequences(s) - 1) * double(m.vocabulary) * sizeof(float);
  const bool has_experts = m.moe && std::ranges::any_of(p.layers, [](const LayerPlacement& l) {
                             return l.decode_experts_on == kHost;
                           });
  if (!has_experts) return bytes;
  constexpr double kInput = 6, kGroupTokens = 32;
  const double jobs =
      std::min(double(m.moe->experts), double(s.settings.ubatch) * m.moe->experts_used);
  const double middle = double(m.moe->expert_ffn), hidden = double(m.hidden);
  return bytes +
         jobs * (kGroupTokens - 1) * (kFloat * (2 * middle + hidden) + kInput * (hidden + middle));
}

// The same on a GPU: partial attention, and logits of every sequence with what it takes to draw
// from them. Mirrors PartialMemory (engine/backends/cuda/batch/cuda_batch_executor.cu) and
// RowResults (row_results.cu).
double further_gpu_bytes(const MemoryContext& s, const Placement& p) {
  if (!serves_steps(s)) return 0;
  constexpr double kSplits = 4096, kPadding = 15;
  const ModelSpec& m = s.model;
  const double width = m.mla ? double(m.mla->kv_lora_rank) : attention_widths(m).head;
  const double partials = double(m.heads) * kSplits * (2 + width) * sizeof(float);
  if (p.head_on == kHost) return partials;
  return partials + (step_sequences(s) + kPadding) * (double(m.vocabulary) * sizeof(float) + kDraw);
}

// Mirrors HostPlacement::computes (engine/placement/host_placement.hpp).
bool host_computes(const MemoryContext& s, const Placement& p) {
  return p.head_on == kHost || (s.kv.policy == KvPolicy::kCombined && !s.rig.unified()) ||
         std::ranges::any_of(p.layers, [](const LayerPlacement& l) {
           return l.decode_on == kHost || l.decode_experts_on == kHost ||
                  l.decode_cache_on == kHost;
         });
}

// The largest number of tokens that the host computes at once. Its layers and caches are computed
// by batches, the head and cold blocks by tokens. Experts whose batches a GPU computes are computed
// by tokens, once the host has been timed. Mirrors HostPlacement::calls
// (engine/placement/host_placement.cpp), whose operations HostOffload passes to the host.
TokenCount host_rows(const MemoryContext& s, const Placement& p) {
  if (serves_steps(s)) return s.settings.ubatch;  // of the longest step, from the start
  const TokenCount batch = s.longest_batch().tokens();
  if (p.host_decodes()) return batch;  // the host looks up the prompt's embeddings
  TokenCount rows = 1;
  for (const LayerPlacement& l : p.layers) {
    if (l.weights == kHost ? l.decode_on == kHost : s.kv.policy == KvPolicy::kRam) return batch;
    if (!s.model.moe || l.experts != kHost || l.decode_experts_on != kHost) continue;
    const bool offloadable =
        l.prefill_on != kHost && offloadable_expert_bytes(s, p, l.prefill_on) > 0;
    rows = std::max(rows, offloadable ? timed_tokens(s.model, s.settings.ubatch) : batch);
  }
  return rows;
}

}  // namespace

Bytes engine_buffers(const MemoryContext& s, const Placement& p, DeviceIndex device) {
  if (device == kHost) {
    if (!host_computes(s, p)) return {};
    const double own =
        cpu_buffer_bytes(s.model, double(host_rows(s, p))) + further_host_bytes(s, p);
    if (s.rig.gpus.empty()) return {own};
    return {own + double(message_floats(s.model)) * sizeof(float) * s.settings.ubatch};
  }
  const bool copies_experts = offloadable_expert_bytes(s, p, device) > 0;
  return {gpu_vector_bytes(s, copies_experts) + token_buffer_bytes(s, device) +
          fp16_bytes(s, p, device) + double(kBlasWorkspaceBytes) + further_gpu_bytes(s, p)};
}

Bytes engine_untouched_buffer_bytes(const MemoryContext& s, const Placement& p) {
  // The host is timed with a batch of this size, unless it decodes alone.
  const TokenCount kept = p.host_decodes() ? 1 : timed_tokens(s.model, s.settings.ubatch);
  const TokenCount rows = host_rows(s, p);
  const PrefillDevices devices(s, p, Batch{s.longest_prompt.cached, rows});
  bool offloadable = false;
  for (int l = 0; l < s.model.layers; ++l) {
    if (!p.offloadable(l) && !p.host_decodes() && s.kv.policy != KvPolicy::kRam) continue;
    if (devices.of(l) == kHost) return {};
    offloadable = true;
  }
  if (!offloadable || rows <= kept) return {};
  // The hidden states of a batch are in use in any case: the host looks up its embeddings.
  const double hidden = hidden_bytes(s.model).value * double(rows - kept);
  const double all = engine_buffers(s, p, kHost).value;
  return Bytes{std::max(0.0, all - double(kept) / double(rows) * all - hidden)};
}

namespace {

// Mirrors begin_loading_products (engine/backends/cuda/make_cuda_executor.cu) and is_small_batch
// (engine/backends/cuda/forward/batch_products.cu).
bool loads_cublas(const MemoryContext& s, const Placement& p) {
  if (s.settings.ubatch > kMaxSmallBatch) return true;
  const Batch batch = s.longest_batch();
  if (batch.tokens() <= kFewTokens) return false;
  if (s.model.mla) return true;  // heads of latent attention
  std::vector<bool> has_floats(std::size_t(s.model.layers));
  for (const Tensor& t : s.tensors.tensors)
    if (t.layer >= 0 && t.layer < s.model.layers && product_of(t) &&
        !supports_small_batch_gemm(t.format))
      has_floats[std::size_t(t.layer)] = true;
  const PrefillDevices devices(s, p, batch);
  for (int l = 0; l < s.model.layers; ++l)
    if (devices.of(l) != kHost && has_floats[std::size_t(l)]) return true;
  return false;
}

// True if cuBLAS multiplies gate and up of an FFN that all tokens pass: their products are F16.
bool has_gates_by_cublas(const MemoryContext& s, const Placement& p) {
  const Batch batch = s.longest_batch();
  const PrefillDevices devices(s, p, batch);
  for (int l = 0; s.model.gated_ffn && l < s.model.layers; ++l) {
    const bool shared = s.model.is_moe_layer(l) && s.model.moe->shared_ffn > 0;
    const DeviceIndex gpu = devices.of(l);
    if (gpu == kHost || !s.model.has_ffn(l) || (s.model.is_moe_layer(l) && !shared)) continue;
    const OpTraffic t = ffn_traffic(s.model, s.tensors, l, batch.tokens());
    // Without known kernels nothing tells.
    if (!s.runtime.blocks || writes_out_weights(s, s.rig.gpus[std::size_t(gpu)], t, batch.tokens()))
      return true;
  }
  return false;
}

}  // namespace

// Those with results in F16 are loaded ahead for models without experts, else when they are used
// first.
CublasKernels engine_cublas_kernels(const MemoryContext& s, const Placement& p) {
  if (!loads_cublas(s, p)) return CublasKernels::kNone;
  const bool all = !s.model.moe || s.model.mla || has_gates_by_cublas(s, p);
  return all ? CublasKernels::kAll : CublasKernels::kFloatResults;
}

void add_engine_weight_buffers(const MemoryContext& s, const Placement& p, MemoryPlan& plan) {
  if (s.rig.unified()) return;
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    const auto gpu = DeviceIndex(g);
    const double expert = offloadable_expert_bytes(s, p, gpu);
    const double slot =
        expert > 0 ? double(expert_slot_bytes(std::size_t(expert), s.model.moe->experts)) : 0;
    // Two slots receive blocks of the file alternately; one buffer holds their repacked weights.
    plan.devices[g].staging += Bytes{3 * (streamed_layer_bytes(s, p, gpu) + slot)};
  }
}

}  // namespace rigcast
