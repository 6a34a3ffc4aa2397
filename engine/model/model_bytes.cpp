#include "engine/model/model_bytes.hpp"

#include "engine/model/layer_weights.hpp"

namespace rigcast::engine {

namespace {

std::int64_t bytes_of(const std::vector<float>& v) {
  return std::int64_t(v.size() * sizeof(float));
}
std::int64_t bytes_of(const Matrix& m) { return m ? m.bytes() : 0; }
std::int64_t bytes_of(const MatrixStack& s) { return s ? s.first.bytes() * s.count : 0; }

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
         bytes_of(m.rope_factors);
}

std::int64_t model_bytes(const Model& m) {
  std::int64_t bytes = embedding_and_head_bytes(m);
  for (const Layer& l : m.layers) bytes += layer_bytes(l);
  return bytes;
}

}  // namespace rigcast::engine
