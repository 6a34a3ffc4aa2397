#pragma once
// Blocks of equal size: who uses them, and which have been free the longest.

#include <list>
#include <vector>

#include "engine/serve/prefix_tree.hpp"

namespace rigcast::engine {

class BlockPool {
 public:
  explicit BlockPool(int count);

  [[nodiscard]] int count() const { return int(blocks_.size()); }
  /// Blocks without users, those that still hold something, too.
  [[nodiscard]] int free() const { return int(free_.size()); }
  [[nodiscard]] int users(int block) const { return at(block).users; }
  /// What is in a block; PrefixTree::kRoot: nothing that anybody finds.
  [[nodiscard]] PrefixTree::Node content(int block) const { return at(block).content; }
  void set_content(int block, PrefixTree::Node node) { at(block).content = node; }

  /// The block that has been free the longest, for one user. Its content is the caller's to forget.
  /// Requires a free one.
  int take();
  /// One more user.
  void share(int block);
  /// One user less; without any it is the last of the free ones.
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

  std::vector<Block> blocks_;
  std::list<int> free_, used_;  // the one that has been free the longest first; used: in no order
};

}  // namespace rigcast::engine
