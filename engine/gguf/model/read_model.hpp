#pragma once
// Reads a model from a GGUF file, for forecasts and for the engine. Figures come from the metadata,
// traits from the tensors; the two are checked against each other.

#include <filesystem>
#include <string>
#include <vector>

#include "core/model/model_file.hpp"
#include "engine/architectures/bind_model.hpp"
#include "engine/gguf/file.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// Reads the spec of any architecture whose file follows the common keys and names. Errors: keys
/// that are missing, out of range or contradictory; figures that differ from layer to layer;
/// recurrent layers; layers without tensors, tensors without layers; matrices of other shapes. For
/// llama, qwen2, qwen3 and qwen3moe every tensor's shape is checked.
Result<ModelSpec> read_spec(const GgufFile& file);

/// The file's tensors in the order of a forward pass. Errors: a format that is known by name only.
Result<TensorTable> read_tensor_table(const GgufFile& file, const ModelSpec& spec);

/// The quant mix that general.file_type names, if a file of it would have about this size;
/// otherwise the format with the most bytes.
std::string quant_name(const GgufFile& file, const ModelSpec& spec, const TensorTable& tensors);

/// Reads hyperparameters. Errors: RoPE scaling other than linear, unsupported weighting of experts,
/// keys of the architecture that would change the result.
Result<Hyperparameters> read_hyperparameters(const GgufFile& file, const ModelSpec& spec);

/// The file's tensors by name. Errors: a format that the engine does not compute with.
Result<std::vector<NamedTensor>> named_tensors(const GgufFile& file);

/// Reads spec and tensors for a forecast, and closes the file.
Result<ModelFile> read_model_file(const std::filesystem::path& path);

/// Loads the model for the engine. The model keeps the file mapped.
Result<Model> load_model(const GgufFile& file);

}  // namespace rigcast::engine
