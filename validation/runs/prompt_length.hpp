#pragma once
// The length of a prompt that is given as text, which is known once the text is tokenised.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/scenario/scenario.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "validation/runs/execute_options.hpp"

namespace rigcast::validation {

/// The tokens of a prompt: with a beginning of the text, and with the names of special tokens read
/// as these.
std::vector<std::int32_t> prompt_ids(const engine::Tokenizer& tokenizer, const std::string& text);
/// Those of options.prompt, which a chat's template may be put around. Errors: those of ChatPrompt.
Result<std::vector<std::int32_t>> prompt_ids(const engine::Tokenizer& tokenizer,
                                             const ExecuteOptions& options);

/// Sets the tokens of the prompt, and the output to what then fits into the context, if that was
/// asked for. Error: prompt and output exceed the context.
std::optional<Error> set_prompt_length(Workload& workload, TokenCount tokens,
                                       const ExecuteOptions& options);

/// Reads the vocabulary of the scenario's file and sets the length of a text prompt, where it
/// decides what a GPU keeps: the number of layers, or of KV tokens. Elsewhere the vocabulary is
/// read while weights are. A run whose file has no vocabulary is refused later. Errors: those of
/// opening the file, of prompt_ids and of set_prompt_length.
std::optional<Error> read_prompt_length(Scenario& scenario, const ExecuteOptions& options);

}  // namespace rigcast::validation
