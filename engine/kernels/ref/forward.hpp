#pragma once
// The reference forward pass: the whole model in scalar F32, one token at a time, each layer's
// operations one by one, every weight dequantized where it is used. It is slow and simple, and the
// reference for logits.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/model.hpp"

namespace rigcast::engine::ref {

/// Logits after every token of `tokens`: tokens.size() rows of the vocabulary's width. The cache
/// is F32. Sums run in double.
std::vector<std::vector<float>> forward(const Model& model, std::span<const std::int32_t> tokens);

/// Hidden states before the final norm, after every token: rows of the model's width.
std::vector<std::vector<float>> hidden_states(const Model& model,
                                              std::span<const std::int32_t> tokens);

/// Logits by which every token chooses its experts: [layer][token]; none in a dense layer.
std::vector<std::vector<std::vector<float>>> router_logits(const Model& model,
                                                           std::span<const std::int32_t> tokens);

}  // namespace rigcast::engine::ref
