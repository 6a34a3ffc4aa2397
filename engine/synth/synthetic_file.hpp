#pragma once
// A GGUF file with synthetic weights.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/base/stop_flag.hpp"
#include "core/model/tensor_table.hpp"

namespace rigcast::engine {

/// Called with the bytes written so far.
using Progress = std::function<void(std::uint64_t done)>;

/// A vocabulary is one of invented words, of the model's size: see synthetic_vocabulary.hpp.
enum class FileVocabulary { kNone, kWords };

/// Zeros are holes, which take no room on the disk: a file that loads and takes memory as any
/// other, but whose speed tells nothing.
enum class FileWeights { kRandom, kZeros };

struct SyntheticFileOptions {
  FileVocabulary vocabulary = FileVocabulary::kNone;
  FileWeights weights = FileWeights::kRandom;
};

/// Writes a GGUF file of the same bytes as make_synthetic_model's, for every architecture of
/// file_metadata.hpp, also of those that the engine does not execute. A model of very few tokens
/// gets no vocabulary. Errors: an architecture or a format that is not written, a seed or a model
/// that a file cannot hold, a full disk, a requested stop. After an error no file is left.
std::optional<Error> write_synthetic_file(const ModelSpec& spec, const TensorTable& tensors,
                                          const std::string& quant, std::uint64_t seed,
                                          const std::filesystem::path& target,
                                          const Progress& progress = {}, const StopFlag& stop = {},
                                          const SyntheticFileOptions& options = {});

}  // namespace rigcast::engine
