#include "validation/runs/prompt_length.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rigcast::validation {

std::optional<Error> set_prompt_length(Workload& w, TokenCount tokens,
                                       const ExecuteOptions& options) {
  w.prompt_tokens = tokens;
  if (options.fill_context)
    w.output_tokens =
        std::clamp<TokenCount>(w.context - w.depth - w.prompt_tokens, 1, w.output_tokens);
  if (w.last_position() <= w.context) return std::nullopt;
  return bad_input(fmt::format("--prompt: {} tokens and an output of {} exceed the context of {}",
                               w.prompt_tokens, w.output_tokens, w.context),
                   "--context N, --output-tokens N");
}

}  // namespace rigcast::validation
