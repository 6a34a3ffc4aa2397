#include "engine/model/model_bytes.hpp"

#include <algorithm>

#include "engine/model/layer_weights.hpp"

namespace rigcast::engine {

namespace {

std::int64_t bytes_of(const std::vector<float>& v) {
  return std::int64_t(v.size() * sizeof(float));
}
std::int64_t bytes_of(const Matrix& m) { return m ? m.bytes() : 0; }
std::int64_t bytes_of(const MatrixStack& s) { return s ? s.first.bytes() * s.count : 0; }

// Bytes that an operation reads, from shapes only; for a stack, those of one expert.
std::int64_t read_bytes(const std::vector<float>& v) { return bytes_of(v); }
std::int64_t read_bytes(const Matrix& m) { return m.bytes(); }
std::int64_t read_bytes(const MatrixStack& s) { return s.first.bytes(); }

// Bytes of the weights from `first` to `last`, in the order of LayerWeight.
std::int64_t read_bytes(const Layer& layer, LayerWeight first, LayerWeight last) {
  std::int64_t bytes = 0;
  for_each_weight(
      [&](LayerWeight weight, const auto& values) {
        if (first <= weight && weight <= last) bytes += read_bytes(values);
      },
      layer);
  return bytes;
}

}  // namespace

std::int64_t expert_bytes(const Layer& layer) {
  std::int64_t bytes = 0;
  for_each_stack([&](LayerWeight, const MatrixStack& stack) { bytes += bytes_of(stack); }, layer);
  return bytes;
}

std::int64_t layer_bytes(const Layer& layer) {
  std::int64_t bytes = 0;
  for_each_weight([&](LayerWeight, const auto& weight) { bytes += bytes_of(weight); }, layer);
  return bytes;
}

std::int64_t embedding_and_head_bytes(const Model& m) {
  const bool tied = m.head.data == m.embedding.data;
  return bytes_of(m.embedding) + (tied ? 0 : bytes_of(m.head)) + bytes_of(m.final_norm) +
         bytes_of(m.final_norm_bias) + bytes_of(m.head_bias) + bytes_of(m.input_embedding) +
         bytes_of(m.input_projection) + bytes_of(m.input_norm) + bytes_of(m.rope_factors) +
         bytes_of(m.long_rope_factors);
}

std::int64_t model_bytes(const Model& m) {
  std::int64_t bytes = embedding_and_head_bytes(m);
  for (const Layer& l : m.layers) bytes += layer_bytes(l);
  return bytes;
}

std::int64_t attention_weight_bytes(const Layer& layer) {
  return read_bytes(layer, LayerWeight::kAttentionNorm, LayerWeight::kMixerOut);
}

std::int64_t ffn_weight_bytes(const Layer& layer) {
  return read_bytes(layer, LayerWeight::kFfnNorm, LayerWeight::kRouterBias);
}

std::int64_t shared_expert_bytes(const Layer& layer) {
  return read_bytes(layer, LayerWeight::kSharedRouter, LayerWeight::kSharedDown);
}

std::int64_t one_expert_bytes(const Layer& layer) {
  const std::int64_t biases =
      read_bytes(layer, LayerWeight::kExpertGateBias, LayerWeight::kExpertDownBias);
  return read_bytes(layer, LayerWeight::kExpertGate, LayerWeight::kExpertDown) +
         biases / std::max(1, layer.expert_gate.count);
}

std::int64_t head_weight_bytes(const Model& m) {
  return read_bytes(m.head) + read_bytes(m.final_norm) + read_bytes(m.rope_factors);
}

}  // namespace rigcast::engine
