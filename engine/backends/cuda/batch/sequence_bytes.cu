#include "engine/backends/cuda/batch/sequence_bytes.cuh"

#include <algorithm>

#include "engine/model/model_bytes.hpp"

namespace rigcast::engine::cuda {
namespace {

double expert_weights(const PlacedModel& model, int layer, double tokens) {
  if (!model.spec().is_moe_layer(layer) || model.host.computes_experts(layer)) return 0;
  const MixtureOfExperts& moe = *model.spec().moe;
  const double chosen = std::min(tokens * moe.experts_used, double(moe.experts));
  return chosen * double(one_expert_bytes(model.layer(layer)));
}

}  // namespace

MovedBytes moved_bytes(const PlacedModel& model, const DeviceCache& cache,
                       std::span<const SequenceStep> sequences) {
  MovedBytes moved;
  double tokens = 0;
  for (const SequenceStep& s : sequences) tokens += double(s.tokens.size());
  const double token_bytes = double(cache.token_bytes());
  for (int layer = 0; layer < model.spec().layers; ++layer) {
    moved.weights +=
        double(attention_weight_bytes(model.layer(layer)) + ffn_weight_bytes(model.layer(layer))) +
        expert_weights(model, layer, tokens);
    for (const SequenceStep& s : sequences) {
      const auto count = TokenCount(s.tokens.size());
      const TokenCount seen = model.spec().attended_tokens(layer, s.cached + 1) + count - 1;
      moved.kv_read += double(seen) * token_bytes;
      moved.kv_written += double(count) * token_bytes;
    }
  }
  moved.weights += double(head_weight_bytes(*model.model));
  return moved;
}

}  // namespace rigcast::engine::cuda
