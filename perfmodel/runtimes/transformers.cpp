#include "perfmodel/runtimes/transformers.hpp"

#include <algorithm>

namespace rigcast {
namespace {

// Bytes of an element of the activations, which have the weights' type. Quantized weights are
// multiplied in FP16.
double element_bytes(const MemoryContext& s) {
  const bool full = std::ranges::any_of(s.tensors.tensors, [](const Tensor& t) {
    return t.role == TensorRole::kTokenEmbedding && t.format == QuantFormat::kF32;
  });
  return full ? 4.0 : 2.0;
}

double widest_ffn(const ModelSpec& model) {
  if (!model.moe) return double(model.ffn);
  const MixtureOfExperts& moe = *model.moe;
  return std::max(double(model.ffn), double(moe.experts_used * moe.expert_ffn + moe.shared_ffn));
}

// The workspace that PyTorch gives to cuBLAS: CUBLAS_WORKSPACE_CONFIG's default, :4096:2:16:8, or
// 32 MiB from Hopper on (pull requests 91564 and 175344 of pytorch).
Bytes cublas_workspace(const MemoryContext& s, DeviceIndex gpu) {
  if (s.settings.backend != Backend::kCuda) return {};
  constexpr std::string_view kLarge[] = {"hopper", "blackwell", "blackwell-dc"};
  const std::string& own = s.rig.gpus[std::size_t(gpu)].architecture;
  return std::ranges::find(kLarge, own) != std::end(kLarge) ? 32_MiB : (2 * 4096 + 8 * 16) * 1_KiB;
}

// Keys are copied to a longer tensor, then values: what the largest layer has of either twice.
Bytes growth(const MemoryContext& s, const Placement& p, DeviceIndex gpu, const Batch& batch) {
  double most = 0;
  for (int l = 0; l < s.model.layers; ++l) {
    if (p.layers[std::size_t(l)].kv != gpu || !s.model.has_kv(l)) continue;
    double cells = 0;
    for (const Sequence& sequence : batch.sequences)
      cells += double(s.model.attended_tokens(l, sequence.length()));
    most = std::max(most, cells * kv_bytes_per_token(s.model, l, s.kv.types) / 2);
  }
  return Bytes{most};
}

}  // namespace

Bytes eager_activations(const MemoryContext& s, TokenCount rows, bool has_head) {
  const ModelSpec& m = s.model;
  const double element = element_bytes(s);
  const double q = double(m.heads) * double(m.head_dim);
  const double kv = double(m.kv_heads) * double(m.head_dim);
  // Embeddings, a layer's input and its norm's output stay until the layer has ended; after
  // attention there is its sum with the input as well.
  const double hidden = double(m.hidden);
  // The activation's output, the other product and their product; without a gate two.
  const double ffn = 4 * hidden + (m.gated_ffn ? 3 : 2) * widest_ffn(m);
  // Rotary embedding: q, both of its products and one of their factors.
  double attention = 3 * hidden + 4 * q + 2 * kv;
  double scores = 0;  // bytes of one row
  if (!s.settings.flash_attention) {
    // Scores, their softmax in F32 and that in the type of the activations; the mask; K and V of
    // every query head.
    const double keys = double(s.longest_prompt.cached + rows);
    scores = keys * (double(m.heads) * (2 * element + 4) + element);
    attention = 3 * hidden + q + 2 * kv;
    scores += 2 * q * element * keys / double(rows);
  }
  const double layer = std::max(ffn * element, attention * element + scores) * double(rows);
  const bool all = s.runtime.logits_at(s.settings.build_year) == LogitsRows::kPrompt;
  const double logits = logits_bytes(m).value * double(all ? rows : 1);
  return Bytes{has_head ? std::max(layer, hidden * element * double(rows) + logits) : layer};
}

Bytes Transformers::compute_buffers(const MemoryContext& s, const Placement& p, DeviceIndex device,
                                    bool works) const {
  const bool has_head = p.head == device || p.head_on == device;
  if (!works && !has_head) return {};
  const bool has_prompt = std::ranges::any_of(
      p.layers, [&](const LayerPlacement& l) { return l.prefill_on == device; });
  const TokenCount rows = has_prompt ? std::max<TokenCount>(1, s.longest_prompt.tokens) : 1;
  return eager_activations(s, rows, has_head) +
         (device == kHost ? Bytes{} : cublas_workspace(s, device));
}

void Transformers::add_cache(const MemoryContext& s, const Placement& p, const Batch& batch,
                             MemoryPlan& plan) const {
  ContiguousCache::add_cache(s, p, batch, plan);
  if (s.kv.policy != KvPolicy::kVram) return;
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    // A cache grows while tokens are decoded: a prompt's activations are free by then.
    const Bytes more = growth(s, p, DeviceIndex(g), batch) - plan.devices[g].activations;
    plan.devices[g].staging += std::max(Bytes{}, more);
  }
}

// The whole model is on one device; tied matrices are one tensor. A host that decodes has a model
// of its own beside the GPU's.
EndMatrices Transformers::end_matrices(const StepContext& s, const Placement& p) const {
  if (p.host_decodes()) return {1, p.head, kHost};
  if (p.head == kHost) return {1, kHost, kHost};
  return {s.tensors.head_is_embedding ? 0 : 1, p.head, p.head};
}

TokenCount Transformers::cells(const MemoryContext&, TokenCount cached) const { return cached; }

}  // namespace rigcast
