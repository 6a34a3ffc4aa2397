#include "engine/model/model_bytes.hpp"

namespace rigcast::engine {
namespace {

template <class... Vectors>
std::int64_t vector_bytes(const Vectors&... vectors) {
  return std::int64_t((0 + ... + vectors.size()) * sizeof(float));
}

std::int64_t stack_bytes(const MatrixStack& s) { return s ? s.first.bytes() * s.count : 0; }

template <class... Matrices>
std::int64_t matrix_bytes(const Matrices&... matrices) {
  return (0 + ... + (matrices ? matrices.bytes() : 0));
}

}  // namespace

std::int64_t expert_bytes(const Layer& l) {
  return stack_bytes(l.expert_gate) + stack_bytes(l.expert_up) + stack_bytes(l.expert_down);
}

std::int64_t layer_bytes(const Layer& l) {
  return expert_bytes(l) + matrix_bytes(l.q, l.k, l.v, l.output, l.gate, l.up, l.down, l.router) +
         vector_bytes(l.attention_norm, l.q_bias, l.k_bias, l.v_bias, l.output_bias, l.q_norm,
                      l.k_norm, l.ffn_norm);
}

std::int64_t embedding_and_head_bytes(const Model& m) {
  const bool tied = m.head.data == m.embedding.data;
  return m.embedding.bytes() + (tied ? 0 : m.head.bytes()) +
         vector_bytes(m.final_norm, m.rope_factors);
}

std::int64_t model_bytes(const Model& m) {
  std::int64_t bytes = embedding_and_head_bytes(m);
  for (const Layer& l : m.layers) bytes += layer_bytes(l);
  return bytes;
}

}  // namespace rigcast::engine
