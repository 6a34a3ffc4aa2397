#pragma once
// The length of a prompt that is given as text, which is known once the text is tokenised.

#include <optional>

#include "core/base/error.hpp"
#include "core/scenario/scenario.hpp"
#include "validation/runs/execute_options.hpp"

namespace rigcast::validation {

/// Sets the tokens of the prompt, and the output to what then fits into the context, if that was
/// asked for. Error: prompt and output exceed the context.
std::optional<Error> set_prompt_length(Workload& workload, TokenCount tokens,
                                       const ExecuteOptions& options);

}  // namespace rigcast::validation
