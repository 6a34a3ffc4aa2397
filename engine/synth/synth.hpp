#pragma once
// Weights of true shape from nothing but a seed. Every block is a function of (seed, tensor name,
// index of the block), so a file, the CPU and a GPU hold the same bytes whoever makes which part.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/model/quant_format.hpp"
#include "core/model/tensor_table.hpp"

namespace rigcast::engine {

/// Bytes of blocks [first_block, first_block + bytes.size() / block bytes) of the tensor. Matrices:
/// weights of mean 0 and standard deviation 1 / sqrt(row width), so that norms keep activations
/// finite and logits apart through all layers. Norms: near 1. Biases: small. Rope factors: 1.
/// routes: of a model with experts, weight_scales.hpp.
void synthesize(const Tensor& tensor, std::uint64_t seed, std::uint64_t first_block,
                std::span<std::byte> bytes, bool routes = false);

/// Some layer has experts.
bool routes(const TensorTable& tensors);

}  // namespace rigcast::engine
