#pragma once
// The order of a step's rows on a GPU, and the shape under which its kernels are captured.

#include <compare>
#include <span>
#include <vector>

#include "engine/run/batch_executor.hpp"

namespace rigcast::engine {

/// The sequences of a step: those with a single new token, then those with a chunk of a prompt,
/// each kind in the caller's order. Indices are into the caller's sequences.
struct RowOrder {
  std::vector<int> singles, chunks;
  TokenCount tokens = 0;         // of all sequences
  TokenCount longest = 0;        // the most tokens of a single row's context, itself included
  TokenCount longest_table = 0;  // the most blocks that a sequence of the step needs
};
/// The longest context of a single row: the splits of its attention fit into the executor's memory
/// for partial results.
inline constexpr TokenCount kMaxContext = 1 << 20;

/// Throws std::invalid_argument if a sequence has no tokens, or too few blocks for them, or a
/// context longer than kMaxContext, or if the step is longer than `limits`.
RowOrder order_of(std::span<const SequenceStep> sequences, const BatchLimits& limits);

/// The number of rows with which `rows` single rows are computed: a graph is captured for each such
/// number. Kernels multiply 8 or 16 tokens at a time, so few of the added rows take time.
int padded_rows(int rows);
/// The most rows by which padded_rows() exceeds its argument.
inline constexpr int kRowPadding = 15;

/// The longest context with which one of `tokens` tokens is computed: a power of two, at least 512.
TokenCount padded_context(TokenCount tokens);

}  // namespace rigcast::engine
