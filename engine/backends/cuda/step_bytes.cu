#include "engine/backends/cuda/step_bytes.cuh"

#include <algorithm>

#include "core/model/kv_bytes.hpp"
#include "engine/backends/cuda/weights/expert_groups.cuh"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine::cuda {

// True if the GPU reads and writes the layer's keys and values in this step.
bool StepBytes::keeps_cache(int layer) const {
  return kv.cache().layer(cached_layer(model.layer(layer).rule, layer)) >= 0 ||
         (offload.layers && model.host.offloadable(layer) && model.spec().has_kv(layer));
}

// The number of tokens of the context to which the GPU attends in a step; for a single token the
// host attends to its share.
TokenCount StepBytes::seen_here(int layer) const {
  const TokenCount seen = model.spec().attended_tokens(layer, cached + 1) + tokens - 1;
  return tokens > 1 ? seen : std::min(seen, cached + 1 - kv.cold_of_host());
}

// The number of tokens that pass the layer's FFN.
std::int64_t StepBytes::ffn_tokens(int layer) const {
  return model.leaves_out_rows(layer) ? wanted : tokens;
}

double StepBytes::of_experts(int layer) const {
  const std::int64_t rows = ffn_tokens(layer);
  if (rows == 0) return 0;
  const double router = double(ffn_weight_bytes(model.layer(layer)));
  if (model.host.computes_experts(layer) && !streamed.streams_in_experts(offload, layer))
    return router;
  // A batch in groups reads an expert at most once. Which experts are chosen is known only on the
  // GPU, so all are counted.
  const MixtureOfExperts& moe = *model.spec().moe;
  const double read = moe.experts_used * double(rows);
  const bool groups = uses_grouped_gemm(model.gpu_layer(layer));
  return router + double(one_expert_bytes(model.layer(layer))) *
                      (groups ? std::min(read, double(moe.experts)) : read);
}

double StepBytes::of_stage(ActivityKind kind, int layer) const {
  switch (kind) {
    case ActivityKind::kAttention: {
      const double weights = double(attention_weight_bytes(model.layer(layer)));
      if (!keeps_cache(layer)) return weights + 2 * state_bytes(model.spec(), layer);
      return weights + double((seen_here(layer) + tokens) * kv.cache().token_bytes(layer));
    }
    case ActivityKind::kFfn:
      return ffn_tokens(layer) > 0 ? double(ffn_weight_bytes(model.layer(layer))) : 0;
    case ActivityKind::kExperts: return of_experts(layer);
    case ActivityKind::kHead: return double(head_weight_bytes(*model.model));
    case ActivityKind::kFetchWeights: return streamed.layer_bytes(layer);
    default: return 0;
  }
}

MovedBytes StepBytes::all() const {
  MovedBytes moved;
  for (int layer = 0; layer < model.spec().layers; ++layer) {
    const bool streamed_in = streamed.is_streamed_in(offload, layer);
    if (model.host.layer(layer) && !streamed_in) continue;
    if (streamed_in) moved.to_gpu += streamed.layer_bytes(layer);
    if (keeps_cache(layer)) {
      const auto token_bytes = double(kv.cache().token_bytes(layer));
      moved.kv_read += double(seen_here(layer)) * token_bytes;
      if (model.spec().has_kv(layer)) moved.kv_written += double(tokens) * token_bytes;
    }
    moved.kv_read += state_bytes(model.spec(), layer);
    moved.kv_written += state_bytes(model.spec(), layer);
    moved.weights += double(attention_weight_bytes(model.layer(layer)));
    const bool moe = model.spec().is_moe_layer(layer);
    moved.weights += of_stage(moe ? ActivityKind::kExperts : ActivityKind::kFfn, layer);
  }
  if (!model.host.head()) moved.weights += of_stage(ActivityKind::kHead, -1);
  moved.to_gpu += kv.step_bytes();
  return moved;
}

}  // namespace rigcast::engine::cuda
