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
  explicit BlockTable(std::span<const int> blocks) : blocks_(blocks.data()) {}

  /// The cache's block that holds the sequence's block `index`.
  TokenCount at(TokenCount index) const {
    return blocks_ ? TokenCount(blocks_[std::size_t(index)]) : index;
  }
  bool operator==(const BlockTable&) const = default;

 private:
  const int* blocks_ = nullptr;
};

}  // namespace rigcast::engine
