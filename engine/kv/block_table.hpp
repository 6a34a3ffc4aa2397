#pragma once
// Where the blocks of a sequence are in a cache that many sequences share.

#include <cstddef>
#include <span>

#include "core/base/units.hpp"

namespace rigcast::engine {

/// The blocks of one sequence, in the order of its tokens. A view: the numbers live elsewhere.
class BlockTable {
 public:
  /// A cache of one sequence: its blocks are the cache's, in their order.
  BlockTable() = default;
  /// `window_blocks`: of layers with a window, whose blocks are apart; empty: as those of others.
  explicit BlockTable(std::span<const int> blocks, std::span<const int> window_blocks = {})
      : blocks_(blocks.data()),
        window_blocks_(window_blocks.empty() ? blocks_ : window_blocks.data()) {}

  /// The cache's block that holds the sequence's block `index`.
  TokenCount at(TokenCount index) const {
    return blocks_ ? TokenCount(blocks_[std::size_t(index)]) : index;
  }
  /// The same of layers with a window.
  TokenCount window_at(TokenCount index) const {
    return window_blocks_ ? TokenCount(window_blocks_[std::size_t(index)]) : index;
  }
  bool operator==(const BlockTable&) const = default;

 private:
  const int* blocks_ = nullptr;
  const int* window_blocks_ = nullptr;
};

}  // namespace rigcast::engine
