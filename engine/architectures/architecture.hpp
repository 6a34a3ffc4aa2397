#pragma once
// Architectures that the engine executes. A family of them is one file of this folder and a row of
// architectures().

#include <span>
#include <string_view>

#include "engine/architectures/hyperparameters.hpp"

namespace rigcast::engine {

/// A decoder of RMS norms, rotary position embedding, grouped attention, and a gated FFN or
/// experts.
struct Architecture {
  std::string_view name;  // general.architecture of a GGUF file
  RopePairs rope_pairs{};
  float norm_eps = 0;  // of files that do not say
  /// The base of the rotary frequencies, of files that do not say.
  float (*rope_base)(const ModelSpec& spec) = nullptr;
};

/// All that are executed. Every tensor of their files is known by name and shape.
std::span<const Architecture> architectures();
/// nullptr: not executed.
const Architecture* find_architecture(std::string_view name);

/// Families:
extern const Architecture kLlama;
extern const Architecture kQwen2, kQwen3, kQwen3Moe;

}  // namespace rigcast::engine
