#pragma once
// The KV cache of a server as blocks of equal size. Full blocks keep what they hold after their
// request has ended, until they are needed, so that prompts that begin alike find them.

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace rigcast {

using BlockId = std::uint32_t;

/// What a full block holds: the tokens of `request` from `index` times the block's size on. A
/// prompt that begins like another's names that one's blocks.
struct BlockContent {
  std::uint32_t request = 0;
  std::uint32_t index = 0;
};

/// A number of its own for every content.
constexpr std::uint64_t key(BlockContent c) { return (std::uint64_t(c.request) << 32) | c.index; }

class KvBlocks {
 public:
  explicit KvBlocks(std::size_t count);

  [[nodiscard]] std::size_t count() const { return blocks_.size(); }
  [[nodiscard]] std::size_t free() const { return free_; }
  [[nodiscard]] bool is_free(BlockId block) const { return blocks_[block].users == 0; }
  /// The block that holds this, in use or not.
  [[nodiscard]] std::optional<BlockId> find(BlockContent content) const;

  /// The block that has been free the longest, for one user. What it held is lost. Requires a free
  /// block.
  BlockId take();
  /// One more user of a block that holds something.
  void share(BlockId block);
  /// One user less of each, the last first, so that the beginning of a prompt is kept the longest.
  void release(std::span<const BlockId> blocks);
  /// States what a full block holds, unless another block holds the same.
  void hold(BlockId block, BlockContent content);

 private:
  struct Block {
    std::uint32_t users = 0;
    BlockId next = 0, previous = 0;  // in the list of free ones
    std::uint64_t content = 0;       // key of what it holds; kNothing
  };
  void append_free(BlockId block);
  void remove_free(BlockId block);

  std::vector<Block> blocks_;
  BlockId first_, last_;  // free ones, the one that has been free the longest first
  std::size_t free_ = 0;
  std::unordered_map<std::uint64_t, BlockId> held_;
};

}  // namespace rigcast
