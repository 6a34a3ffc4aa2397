#pragma once
// The model architectures that the engine executes. A family of them is one file of this folder and
// a row of architectures().

#include <span>
#include <string_view>
#include <vector>

#include "core/model/model_spec.hpp"
#include "engine/architectures/metadata_keys.hpp"
#include "engine/model/hyperparameters.hpp"
#include "engine/model/layer_ops.hpp"

namespace rigcast::engine {

/// Facts that computing a model of an architecture needs in addition to its ModelSpec.
struct Architecture {
  std::string_view name;  // general.architecture of a GGUF file
  RopePairs rope_pairs{};
  float norm_eps = 0;  // default for files without it
  /// Default base of the RoPE frequencies, for files without it.
  float (*rope_base)(const ModelSpec& spec) = nullptr;
  /// The operations of a layer, in order.
  std::vector<LayerOp> (*layer_ops)(const ModelSpec& spec, int layer) = nullptr;
  /// A trait of the model that `layer_ops` does not express, in words; empty: none.
  std::string_view (*unexecuted_trait)(const ModelSpec& spec) = nullptr;
  /// Metadata keys that are read, and keys that would change the result.
  const MetadataKeys* keys = nullptr;
  /// Keys of this architecture that are read as well, whatever `keys` says of them.
  std::span<const std::string_view> own_keys{};
};

/// All architectures that are executed. Every tensor of their files is known by name and shape.
std::span<const Architecture> architectures();
/// Finds an architecture; nullptr: it is not executed.
const Architecture* find_architecture(std::string_view name);

/// Typical hyperparameters of this architecture's files, for weights that come from no file.
Hyperparameters default_hyperparameters(const ModelSpec& spec);
/// The operations of a layer of a model whose architecture is executed.
std::vector<LayerOp> layer_ops(const ModelSpec& spec, int layer);

/// Families:
extern const Architecture kLlama;
extern const Architecture kQwen2, kQwen3, kQwen3Moe;

}  // namespace rigcast::engine
