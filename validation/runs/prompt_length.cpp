#include "validation/runs/prompt_length.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/backends/backend.hpp"
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
  const auto tokens = TokenCount(prompt_ids(**tokenizer, *options.prompt).size());
  return set_prompt_length(s.workload, tokens, options);
}

}  // namespace rigcast::validation
