#pragma once
// Reads a model from a GGUF file, for forecasts and for the engine.

#include <filesystem>

#include "core/model/model_file.hpp"
#include "engine/architectures/bind_model.hpp"
#include "engine/gguf/file.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// Reads hyperparameters. Errors: RoPE scaling other than linear, unsupported weighting of experts,
/// keys of the architecture that would change the result.
Result<Hyperparameters> read_hyperparameters(const GgufFile& file, const ModelSpec& spec);

/// Reads spec and tensors for a forecast, and closes the file.
Result<ModelFile> read_model_file(const std::filesystem::path& path);

/// Bytes of the tensors of a vision projector, and closes the file. Errors: those of
/// GgufFile::open; any other file.
Result<Bytes> read_projector_file(const std::filesystem::path& path);

/// Loads the model for the engine. The model keeps the file mapped.
Result<Model> load_model(const GgufFile& file);

}  // namespace rigcast::engine
