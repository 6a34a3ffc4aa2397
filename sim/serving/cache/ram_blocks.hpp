#pragma once
// Blocks of a KV cache that RAM, or a disk, holds beside or after it: what was used the longest ago
// goes first.

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>

#include "sim/serving/cache/block_run.hpp"

namespace rigcast {

class RamBlocks {
 public:
  explicit RamBlocks(std::size_t count) : count_(count) {}

  /// Up to where RAM has these one after the other.
  [[nodiscard]] std::uint32_t held_until(const BlockRun& wanted) const {
    return rigcast::held_until(held_, wanted);
  }
  /// Up to where RAM has none of these, whose first one it has not.
  [[nodiscard]] std::uint32_t gap_end(const BlockRun& wanted) const {
    return rigcast::gap_end(held_, wanted);
  }
  /// Keeps blocks, the first one first. Returns how many were not there already; the others count
  /// as used now.
  std::size_t store(BlockRun blocks);
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  using Order = std::list<std::uint64_t>;  // keys of first blocks
  struct Held {
    std::uint32_t end = 0;
    Order::iterator place;
  };
  using HeldRuns = std::map<std::uint64_t, Held>;  // by the key of their first block
  std::uint32_t make_room(std::uint32_t blocks);
  void remove(HeldRuns::iterator run, std::uint32_t begin, std::uint32_t end);
  void append(const BlockRun& blocks);

  const std::size_t count_;
  std::size_t size_ = 0;
  Order order_;  // the one used the longest ago first
  HeldRuns held_;
};

}  // namespace rigcast
