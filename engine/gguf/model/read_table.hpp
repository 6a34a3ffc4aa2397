#pragma once
// Reads the tensors of a GGUF file.

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/architectures/bind_model.hpp"
#include "engine/gguf/file.hpp"

namespace rigcast::engine {

/// The file's tensors in the order of a forward pass. Errors: a format that is known by name only.
Result<TensorTable> read_tensor_table(const GgufFile& file, const ModelSpec& spec);

/// The quant mix that general.file_type names, if a file of it would have about this size;
/// otherwise the format with the most bytes.
std::string quant_name(const GgufFile& file, const ModelSpec& spec, const TensorTable& tensors);

/// The file's tensors by name. Errors: a format that the engine does not compute with.
Result<std::vector<NamedTensor>> named_tensors(const GgufFile& file);

}  // namespace rigcast::engine
