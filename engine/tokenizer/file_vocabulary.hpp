#pragma once
// The tokenizer of a model file.

#include <optional>

#include "core/base/error.hpp"
#include "engine/gguf/file.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace rigcast::engine {

/// Makes the file's tokenizer. nullopt: the file has no vocabulary (or states "no_vocab" or
/// "none"), and runs on token ids. Errors: an unsupported kind of vocabulary, keys of another type,
/// and what Tokenizer::make refuses.
Result<std::optional<Tokenizer>> file_tokenizer(const GgufFile& file);

}  // namespace rigcast::engine
