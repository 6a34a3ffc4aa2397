#include "engine/backends/cuda/batch/sequence_bytes.cuh"

#include <algorithm>

#include "core/model/kv_bytes.hpp"
#include "engine/model/model_bytes.hpp"

namespace rigcast::engine::cuda {
namespace {

// Where the host computes experts, it routes a step's tokens to them, too.
double ffn_weights(const PlacedModel& model, int layer, double tokens) {
  if (tokens == 0) return 0;
  const Layer& w = model.layer(layer);
  if (!model.spec().is_moe_layer(layer)) return double(ffn_weight_bytes(w));
  if (model.host.computes_experts(layer)) return 0;
  const MixtureOfExperts& moe = *model.spec().moe;
  const double chosen = std::min(tokens * moe.experts_used, double(moe.experts));
  return double(ffn_weight_bytes(w)) + chosen * double(one_expert_bytes(w));
}

MovedBytes kv_bytes(const State& s, int layer, std::span<const SequenceStep> sequences) {
  const auto token_bytes = double(s.kv.cache().token_bytes(layer));
  MovedBytes moved;
  for (const SequenceStep& step : sequences) {
    const auto count = TokenCount(step.tokens.size());
    const TokenCount seen = s.spec().attended_tokens(layer, step.cached + 1) + count - 1;
    moved.kv_read += double(seen) * token_bytes;
    if (s.spec().has_kv(layer)) moved.kv_written += double(count) * token_bytes;
  }
  return moved;
}

}  // namespace

MovedBytes moved_bytes(const State& s, std::span<const SequenceStep> sequences,
                       std::size_t kept) {
  MovedBytes moved;
  double tokens = 0;
  for (const SequenceStep& step : sequences) tokens += double(step.tokens.size());
  for (int layer = 0; layer < s.spec().layers; ++layer) {
    if (s.on_host().layer(layer)) continue;
    if (s.on_host().streamed(layer)) moved.to_gpu += s.streamed.layer_bytes(layer);
    const double of_ffn = s.model.leaves_out_rows(layer) ? double(kept) : tokens;
    moved.weights +=
        double(attention_weight_bytes(s.model.layer(layer))) + ffn_weights(s.model, layer, of_ffn);
    if (s.kv.cache().layer(layer) >= 0) moved += kv_bytes(s, layer, sequences);
    const double states = double(sequences.size()) * state_bytes(s.spec(), layer);
    moved.kv_read += states;
    moved.kv_written += states;
  }
  if (!s.on_host().head()) moved.weights += double(head_weight_bytes(*s.model.model));
  return moved;
}

}  // namespace rigcast::engine::cuda
