#pragma once
// Metadata that change what a model computes in ways that the engine does not follow.

#include <optional>

#include "core/base/error.hpp"
#include "core/model/model_spec.hpp"
#include "engine/gguf/file.hpp"

namespace rigcast::engine {

/// Of the keys "<architecture>....": names one that the engine neither reads nor knows to change
/// nothing, or that has a value which would change the result. Keys of other kinds (general,
/// tokenizer, split, quantize) pass.
std::optional<Error> refuse_unexecuted_keys(const GgufFile& file, const ModelSpec& spec);

}  // namespace rigcast::engine
