#pragma once
// Blocks of a KV cache that RAM holds beside or after it: what was used the longest ago goes first.

#include <cstdint>
#include <list>
#include <unordered_map>

#include "sim/serving/cache/kv_blocks.hpp"

namespace rigcast {

class RamBlocks {
 public:
  explicit RamBlocks(std::size_t count) : count_(count) {}

  [[nodiscard]] bool holds(BlockContent content) const { return held_.contains(key(content)); }
  /// Keeps a block. False: it is there already, and counts as used now.
  bool store(BlockContent content);
  [[nodiscard]] std::size_t size() const { return held_.size(); }

 private:
  const std::size_t count_;
  std::list<std::uint64_t> order_;  // the one used the longest ago first
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> held_;
};

}  // namespace rigcast
