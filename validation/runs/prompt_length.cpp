#include "validation/runs/prompt_length.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/backends/backend.hpp"
#include "engine/chat/chat_prompt.hpp"
#include "engine/gguf/file.hpp"
#include "engine/kv/kv_eviction.hpp"
#include "engine/tokenizer/file_vocabulary.hpp"

namespace rigcast::validation {
namespace {

bool decides_what_gpu_keeps(const Scenario& s, const ExecuteOptions& options) {
  return options.backend->is_gpu() && (!s.placement.gpu_layers || engine::kv_eviction_of(s));
}

}  // namespace

std::vector<std::int32_t> prompt_ids(const engine::Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, {true, true});
}

Result<std::vector<std::int32_t>> prompt_ids(const engine::Tokenizer& tokenizer,
                                             const ExecuteOptions& options) {
  if (!options.chat) return prompt_ids(tokenizer, *options.prompt);
  const auto prompt = engine::ChatPrompt::make(options.chat->format, tokenizer);
  if (!prompt) return prompt.error();
  std::vector<engine::ChatMessage> messages;
  if (!options.chat->system.empty())
    messages.push_back({engine::ChatRole::kSystem, options.chat->system});
  messages.push_back({engine::ChatRole::kUser, *options.prompt});
  return prompt->render(messages);
}

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

std::optional<Error> read_prompt_length(Scenario& s, const ExecuteOptions& options) {
  if (!options.prompt || !s.model_file || !decides_what_gpu_keeps(s, options)) return std::nullopt;
  const auto file = engine::GgufFile::open(*s.model_file);
  if (!file) return file.error();
  const auto tokenizer = engine::file_tokenizer(*file);
  if (!tokenizer || !*tokenizer) return std::nullopt;
  const auto ids = prompt_ids(**tokenizer, options);
  if (!ids) return ids.error();
  return set_prompt_length(s.workload, TokenCount(ids->size()), options);
}

}  // namespace rigcast::validation
