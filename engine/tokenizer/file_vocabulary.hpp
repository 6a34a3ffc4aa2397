#pragma once
// The tokenizer that a file brings.

#include <optional>

#include "core/base/error.hpp"
#include "engine/gguf/file.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace rigcast::engine {

/// nullopt: the file has no vocabulary (or says "no_vocab" or "none"), and runs on token ids.
/// Errors: a kind of vocabulary that is not understood, keys of another type, and what
/// Tokenizer::make refuses.
Result<std::optional<Tokenizer>> file_tokenizer(const GgufFile& file);

}  // namespace rigcast::engine
