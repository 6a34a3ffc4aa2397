#pragma once
// Synthetic weights of real shapes, from a seed. Every block is a function of (seed, tensor name,
// block index), so a file, the CPU and a GPU have the same bytes, whichever makes which part.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/model/quant_format.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/synth/weight_scales.hpp"

namespace rigcast::engine {

/// Generates the bytes of blocks [first_block, first_block + bytes.size() / block bytes) of the
/// tensor. Matrices: weights of mean 0 and standard deviation 1 / sqrt(row width), so that norms
/// keep activations finite and logits distinct through all layers. Norms: near 1. Biases: small.
/// RoPE factors: 1. traits: synth_traits() of all tensors.
void synthesize(const Tensor& tensor, std::uint64_t seed, std::uint64_t first_block,
                std::span<std::byte> bytes, SynthTraits traits = {});

SynthTraits synth_traits(const TensorTable& tensors);

}  // namespace rigcast::engine
