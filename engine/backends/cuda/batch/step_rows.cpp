#include "engine/backends/cuda/batch/step_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace rigcast::engine {
namespace {

void check_sequence(const SequenceStep& s, const BatchLimits& limits) {
  if (s.tokens.empty() || s.cached < 0)
    throw std::invalid_argument("a step's sequence has at least one new token");
  const TokenCount room = TokenCount(s.blocks.size()) * limits.block_tokens;
  if (room < s.cached + TokenCount(s.tokens.size()))
    throw std::invalid_argument("a sequence has fewer blocks than its tokens need");
  if (s.cached + TokenCount(s.tokens.size()) > kMaxContext)
    throw std::invalid_argument(fmt::format(
        "a GPU decodes contexts of up to {} tokens where it has several sequences", kMaxContext));
  if (s.state < 0 || s.state >= limits.step_sequences)
    throw std::invalid_argument(fmt::format("there is no state {}", s.state));
  for (const int block : s.blocks)
    if (block < 0 || block >= limits.blocks)
      throw std::invalid_argument(fmt::format("the pool has no block {}", block));
  if (limits.window_blocks == 0) return;
  if (s.window_blocks.size() < s.blocks.size())
    throw std::invalid_argument("a sequence has fewer blocks of windows than others");
  for (const int block : s.window_blocks)
    if (block < 0 || block >= limits.window_blocks)
      throw std::invalid_argument(fmt::format("the pool of windows has no block {}", block));
}

}  // namespace

RowOrder order_of(std::span<const SequenceStep> sequences, const BatchLimits& limits) {
  if (sequences.empty() || int(sequences.size()) > limits.step_sequences)
    throw std::invalid_argument(fmt::format("a step has 1 to {} sequences", limits.step_sequences));
  RowOrder order;
  for (int i = 0; i < int(sequences.size()); ++i) {
    const SequenceStep& s = sequences[std::size_t(i)];
    check_sequence(s, limits);
    const TokenCount tokens = TokenCount(s.tokens.size()), context = s.cached + tokens;
    order.tokens += tokens;
    order.longest_table =
        std::max(order.longest_table, (context + limits.block_tokens - 1) / limits.block_tokens);
    if (tokens > 1) {
      order.chunks.push_back(i);
      continue;
    }
    order.singles.push_back(i);
    order.longest = std::max(order.longest, context);
  }
  if (order.tokens > limits.step_tokens)
    throw std::invalid_argument(fmt::format("a step has up to {} tokens", limits.step_tokens));
  return order;
}

int padded_rows(int rows) {
  if (rows <= 4) return rows;
  const int multiple = rows <= 64 ? 4 : 16;
  return (rows + multiple - 1) / multiple * multiple;
}

TokenCount padded_context(TokenCount tokens) {
  return TokenCount(std::bit_ceil(std::uint64_t(std::max<TokenCount>(tokens, 512))));
}

}  // namespace rigcast::engine
