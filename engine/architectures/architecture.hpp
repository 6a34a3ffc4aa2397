#pragma once
// Architectures that the engine executes. A family of them is one file of this folder and a row of
// architectures().

#include <span>
#include <string_view>
#include <vector>

#include "core/model/model_spec.hpp"
#include "engine/architectures/metadata_keys.hpp"
#include "engine/model/hyperparameters.hpp"
#include "engine/model/layer_ops.hpp"

namespace rigcast::engine {

/// What computing the models of an architecture asks for beyond their ModelSpec.
struct Architecture {
  std::string_view name;  // general.architecture of a GGUF file
  RopePairs rope_pairs{};
  float norm_eps = 0;  // of files that do not say
  /// The base of the rotary frequencies, of files that do not say.
  float (*rope_base)(const ModelSpec& spec) = nullptr;
  /// What computes a layer, in order.
  std::vector<LayerOp> (*layer_ops)(const ModelSpec& spec, int layer) = nullptr;
  /// What the model has and `layer_ops` does not express, in words; empty: nothing.
  std::string_view (*unexecuted_trait)(const ModelSpec& spec) = nullptr;
  /// Which metadata of a file are followed, and which would change the result.
  const MetadataKeys* keys = nullptr;
  /// What it follows beside them, whatever `keys` says of it.
  std::span<const std::string_view> own_keys{};
};

/// All that are executed. Every tensor of their files is known by name and shape.
std::span<const Architecture> architectures();
/// nullptr: not executed.
const Architecture* find_architecture(std::string_view name);

/// Hyperparameters that files of this architecture usually have, for weights that no file brings.
Hyperparameters usual_hyperparameters(const ModelSpec& spec);
/// The operations of a layer of a model whose architecture is executed.
std::vector<LayerOp> layer_ops(const ModelSpec& spec, int layer);

/// Families:
extern const Architecture kLlama;
extern const Architecture kQwen2, kQwen3, kQwen3Moe;

}  // namespace rigcast::engine
