#pragma once
// A check for metadata that change a model's results in ways that the engine does not support.

#include <optional>

#include "core/base/error.hpp"
#include "core/model/model_spec.hpp"
#include "engine/gguf/file.hpp"

namespace rigcast::engine {

/// The error names a key "<architecture>...." that the engine neither reads nor knows to be
/// harmless, or whose value would change the result. Keys of other kinds (general, tokenizer,
/// split, quantize) pass.
std::optional<Error> check_executed_keys(const GgufFile& file, const ModelSpec& spec);

}  // namespace rigcast::engine
