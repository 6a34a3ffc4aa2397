#pragma once
// Blocks of equal size: who uses them, and which have been free the longest.

#include <array>
#include <list>
#include <vector>

#include "engine/serve/prefix_tree.hpp"

namespace rigcast::engine {

class BlockPool {
 public:
  /// The last `cold` of the blocks are taken only where no other is free.
  explicit BlockPool(int count, int cold = 0);

  [[nodiscard]] int count() const { return int(blocks_.size()); }
  /// Blocks without users, those that still hold something, too.
  [[nodiscard]] int free() const { return int(free_[0].size() + free_[1].size()); }
  [[nodiscard]] int users(int block) const { return at(block).users; }
  /// What is in a block; PrefixTree::kRoot: nothing that anybody finds.
  [[nodiscard]] PrefixTree::Node content(int block) const { return at(block).content; }
  void set_content(int block, PrefixTree::Node node) { at(block).content = node; }

  /// The block that has been free the longest, and is not cold if any such is free, for one user.
  /// Its content is the caller's to forget. Requires a free one.
  int take();
  /// One more user.
  void share(int block);
  /// One user less; without any it is the last of the free ones, or of those that are cold.
  void release(int block);
  /// A free block counts as used now: others are taken before it.
  void touch(int block);

 private:
  struct Block {
    int users = 0;
    PrefixTree::Node content = PrefixTree::kRoot;
    std::list<int>::iterator place;  // among the free ones
  };
  [[nodiscard]] const Block& at(int block) const { return blocks_[std::size_t(block)]; }
  Block& at(int block) { return blocks_[std::size_t(block)]; }
  std::list<int>& free_like(int block) { return free_[block < first_cold_ ? 0 : 1]; }

  std::vector<Block> blocks_;
  int first_cold_;
  // Cold ones apart; the one that has been free the longest first. Used: in no order.
  std::array<std::list<int>, 2> free_;
  std::list<int> used_;
};

}  // namespace rigcast::engine
