#pragma once
// The KV cache of a server as blocks of equal size. Full blocks keep what they hold after their
// request has ended, until they are needed, so that prompts that begin alike find them.
//
// Blocks that follow one another, and of which the same is known, are kept as one run: blocks of
// some servers are single tokens.

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>

#include "sim/serving/cache/block_run.hpp"

namespace rigcast {

class KvBlocks {
 public:
  explicit KvBlocks(std::size_t count);

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t free() const { return free_; }
  /// Up to where blocks hold these one after the other, in use or not.
  [[nodiscard]] std::uint32_t held_until(const BlockRun& wanted) const;
  /// Blocks without users among these, all of which are held.
  [[nodiscard]] std::size_t unused(const BlockRun& held) const;

  /// The blocks that have been free the longest, for one user. What they held is lost. Requires as
  /// many free ones.
  void take(std::size_t blocks);
  /// One more user of blocks that hold these.
  void share(const BlockRun& held);
  /// One user less of each, the last first, so that the beginning of a prompt is kept the longest.
  void release(const BlockRun& held);
  /// The same of blocks that hold nothing that anybody finds.
  void release(std::size_t blocks);

  struct Stated {
    std::uint32_t end;
    bool by_these;  // false: other blocks hold the same
  };
  /// States what full blocks of one user hold, from the first of `full` on up to the first of which
  /// it is not so that other blocks hold it, or do not, as of the first.
  Stated hold(const BlockRun& full);

 private:
  struct FreeRun;
  using FreeRuns = std::list<FreeRun>;
  struct Held {
    std::uint32_t end = 0, users = 0;
    FreeRuns::iterator free;  // without users
  };
  using HeldRuns = std::map<std::uint64_t, Held>;  // by the key of their first block
  // Of those that hold something, the last one has been free the longest.
  struct FreeRun {
    HeldRuns::iterator held;  // end(): they hold nothing
    std::size_t count = 0;
  };

  HeldRuns::iterator split(HeldRuns::iterator run, std::uint32_t index);
  void split_at(std::uint32_t request, std::uint32_t index);
  void join_before(HeldRuns::iterator run);
  void append_free(HeldRuns::iterator run);

  std::size_t count_, free_;
  FreeRuns free_runs_;  // the one that has been free the longest first
  HeldRuns held_;
};

}  // namespace rigcast
