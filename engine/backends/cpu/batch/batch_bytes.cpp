#include "engine/backends/cpu/batch/batch_bytes.hpp"

#include <algorithm>

#include "core/scenario/engine_sizes.hpp"
#include "engine/kernels/cpu/floats.hpp"
#include "engine/kv/kv_cache.hpp"

namespace rigcast::engine {
namespace {

// Rows that fill the gaps between the groups of experts' tokens.
double expert_gap_bytes(const ModelSpec& m, const BatchLimits& limits) {
  if (!m.moe) return 0;
  constexpr double kFloat = 4, kInput = 6;
  const double jobs =
      std::min(double(m.moe->experts), double(limits.step_tokens) * double(m.moe->experts_used));
  const double middle = double(m.moe->expert_ffn), hidden = double(m.hidden);
  return jobs * double(cpu::FloatBatch::kGroup - 1) *
         (kFloat * (2 * middle + hidden) + kInput * (hidden + middle));
}

// Layers count the logits of one row.
double further_logits_bytes(const ModelSpec& m, const BatchLimits& limits) {
  return double(limits.step_sequences - 1) * double(m.vocabulary) * sizeof(float);
}

}  // namespace

CpuBlockBytes cpu_block_bytes(const Model& model, KvTypes types, TokenCount block_tokens) {
  const KvCache cache(model.spec, types, block_tokens, all_layers(model.spec), make_large_pages, 1,
                      1);
  return {double(cache.block_bytes()), double(cache.window_block_bytes())};
}

double cpu_batch_buffer_bytes(const Model& model, const BatchLimits& limits) {
  return cpu_buffer_bytes(model.spec, double(limits.step_tokens)) +
         further_buffer_bytes(model, limits);
}

double further_buffer_bytes(const Model& model, const BatchLimits& limits,
                            const CpuBatchParts& parts) {
  return (parts.head ? further_logits_bytes(model.spec, limits) : 0) +
         (parts.experts ? expert_gap_bytes(model.spec, limits) : 0);
}

}  // namespace rigcast::engine
