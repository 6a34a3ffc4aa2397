#pragma once
// A request as the scheduler sees it: its tokens so far, how many of them are computed, and its
// blocks.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/run/sampler.hpp"
#include "engine/serve/completions.hpp"
#include "engine/serve/kv_pool.hpp"

namespace rigcast::engine {

struct Sequence {
  Sequence(CompletionId number, CompletionRequest asked)
      : id(number),
        request(std::move(asked)),
        tokens(request.prompt),
        prompt(TokenCount(tokens.size())),
        sampler(request.sampling) {}

  [[nodiscard]] TokenCount known() const { return TokenCount(tokens.size()); }
  [[nodiscard]] TokenCount generated() const { return known() - prompt; }
  /// Tokens of which blocks hold keys and values when it ends: the last one is not computed.
  [[nodiscard]] TokenCount longest() const { return prompt + request.max_tokens - 1; }
  /// True if a checkpoint of its state is to be taken now, if ever: blocks have `block` tokens.
  [[nodiscard]] bool is_at_checkpoint(TokenCount block) const {
    return computed == parts_at || computed == last_checkpoint ||
           (generated() > 0 && computed % block == 0);
  }
  [[nodiscard]] std::span<const std::int32_t> computed_tokens() const {
    return std::span(tokens).first(std::size_t(computed));
  }

  const CompletionId id;
  CompletionRequest request;
  std::vector<std::int32_t> tokens;  // of the prompt and of the answer so far
  const TokenCount prompt;
  TokenCount computed = 0;  // tokens whose keys and values are in its blocks
  SequenceBlocks own{};
  int state = -1;  // of the executor's, for recurrent layers; -1: it has none
  // Tokens at which steps end, because a checkpoint of its state is taken there: where it and
  // others part, and near the end of its prompt; 0: nowhere.
  TokenCount parts_at = 0, last_checkpoint = 0;
  Sampler sampler;
  bool was_scheduled = false;
  // Tokens that were found in the pool, in the host's and on disk, when it was last admitted, and
  // those that were found there and are computed anew, which is faster.
  TokenCount found_here = 0, found_on_host = 0, found_on_disk = 0, left_in_tiers = 0;
  TokenCount cached = 0;  // found, and not computed anew, at its first admission
  int preemptions = 0;
};

}  // namespace rigcast::engine
