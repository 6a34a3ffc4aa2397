#pragma once
// From a GGUF file to what forecasts and the engine need of a model. Figures come from the
// metadata, traits from the tensors that are there; the two are held against each other.

#include <filesystem>
#include <string>
#include <vector>

#include "core/model/model_file.hpp"
#include "engine/architectures/bind_model.hpp"
#include "engine/gguf/file.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// Facts of any architecture whose file follows the common keys and names. Errors: keys that are
/// missing, absurd or contradict one another; figures that differ from layer to layer; recurrent
/// layers; layers without tensors, tensors without layers; matrices of other shapes. Of llama,
/// qwen2, qwen3 and qwen3moe every tensor's shape is checked.
Result<ModelSpec> read_spec(const GgufFile& file);

/// The file's own tensors in the order of a pass. Errors: a format that is listed only.
Result<TensorTable> read_tensor_table(const GgufFile& file, const ModelSpec& spec);

/// The mix that general.file_type names if such a file would have about these bytes, else the
/// format of most bytes.
std::string quant_name(const GgufFile& file, const ModelSpec& spec, const TensorTable& tensors);

/// Errors: scaling of rope other than linear, experts weighted in other ways than they are here,
/// keys of the architecture that would change the result in ways that are not executed.
Result<Hyperparameters> read_hyperparameters(const GgufFile& file, const ModelSpec& spec);

/// Errors: a format that is not computed with.
Result<std::vector<NamedTensor>> named_tensors(const GgufFile& file);

/// All of it, for a forecast. The file is closed again.
Result<ModelFile> read_model_file(const std::filesystem::path& path);

/// All of it, to compute with. The model keeps the file mapped.
Result<Model> load_model(const GgufFile& file);

}  // namespace rigcast::engine
