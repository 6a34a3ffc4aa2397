#pragma once
// Bytes of a model's weights in memory, in their stored formats.

#include <cstdint>

#include "engine/model/model.hpp"

namespace rigcast::engine {

/// Bytes of a layer's routed experts; 0: it has none.
std::int64_t expert_bytes(const Layer& layer);
/// Bytes of a layer's matrices and vectors, including experts.
std::int64_t layer_bytes(const Layer& layer);
/// Bytes of embedding and head, and of the vectors outside of layers; a matrix that serves as both
/// is counted once.
std::int64_t embedding_and_head_bytes(const Model& model);
std::int64_t model_bytes(const Model& model);

// Bytes of weights that an operation reads, computed from shapes; the weights need not be in this
// memory.
/// Norms, projections and biases of attention.
std::int64_t attention_weight_bytes(const Layer& layer);
/// The norm and a dense FFN; of a MoE layer the norm and the router.
std::int64_t ffn_weight_bytes(const Layer& layer);
/// The expert that all tokens pass, and its router, which the FFN's bytes include.
std::int64_t shared_expert_bytes(const Layer& layer);
/// A single routed expert.
std::int64_t one_expert_bytes(const Layer& layer);
/// The last norm, the output matrix, and RoPE's factors.
std::int64_t head_weight_bytes(const Model& model);

}  // namespace rigcast::engine
