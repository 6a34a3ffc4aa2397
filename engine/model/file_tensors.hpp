#pragma once
// Tensors of a GGUF file, where a model's table has a stand-in or a name of its own for them.

#include "core/model/tensor_table.hpp"

namespace rigcast::engine {

/// The same tensors, by the names and in the shapes in which llama.cpp looks for them.
TensorTable file_tensors(const ModelSpec& model, const TensorTable& tensors);

}  // namespace rigcast::engine
