#pragma once
// What a model's weights take of memory, as they lie.

#include <cstdint>

#include "engine/model/model.hpp"

namespace rigcast::engine {

/// The routed experts of a layer; 0: it has none.
std::int64_t expert_bytes(const Layer& layer);
/// Matrices and vectors, experts included.
std::int64_t layer_bytes(const Layer& layer);
/// Of both, and of the vectors beside layers; a matrix that is both is counted once.
std::int64_t embedding_and_head_bytes(const Model& model);
std::int64_t model_bytes(const Model& model);

// What an operation reads of the weights, by their shapes: they need not lie in this memory.
/// Norms, projections and biases of attention.
std::int64_t attention_weight_bytes(const Layer& layer);
/// The norm and a dense FFN; of a MoE layer the norm and the router.
std::int64_t ffn_weight_bytes(const Layer& layer);
/// One of the routed experts.
std::int64_t one_expert_bytes(const Layer& layer);
/// The last norm, the output matrix, and the factors of the rotary embedding.
std::int64_t head_weight_bytes(const Model& model);

}  // namespace rigcast::engine
