#pragma once
// Who has which blocks of a batch executor's pool, and what blocks still hold of requests that have
// ended: in the pool, in the host's pool behind it, and on disk.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/run/batch_executor.hpp"
#include "engine/serve/block_pool.hpp"
#include "engine/serve/restore_rates.hpp"

namespace rigcast::engine {

/// The blocks of one sequence.
struct SequenceBlocks {
  std::vector<int> blocks{};
  std::size_t findable = 0;                   // first ones whose content others can find
  PrefixTree::Node last = PrefixTree::kRoot;  // content of these, pinned
};

class KvPool {
 public:
  /// `prefix_cache`: what blocks hold is found by others; else it is lost with its sequence, and
  /// nothing is moved to the host. `disk_blocks`: of a store on disk; 0: there is none.
  KvPool(const BatchLimits& limits, bool prefix_cache, int disk_blocks = 0);

  [[nodiscard]] int blocks() const { return pool_.count(); }
  [[nodiscard]] int free_blocks() const { return pool_.free(); }
  [[nodiscard]] TokenCount block_tokens() const { return block_; }
  /// Tokens that one sequence can have at most.
  [[nodiscard]] TokenCount longest_sequence() const { return TokenCount(pool_.count()) * block_; }

  /// First full blocks of a sequence: in the pool, and after those in the host's pool or on disk.
  struct Found {
    std::vector<PrefixTree::Node> nodes{};
    std::size_t here = 0;         // of the nodes, the first ones
    std::vector<KvTier> tiers{};  // of the others; the host's where both have it
    TokenCount here_tokens = 0, host_tokens = 0, disk_tokens = 0;
    [[nodiscard]] TokenCount tokens() const { return here_tokens + to_restore(); }
    [[nodiscard]] TokenCount to_restore() const { return host_tokens + disk_tokens; }
  };
  /// Looks for the beginning of a sequence, whose last token is always computed. Valid until
  /// anything else is called here.
  [[nodiscard]] Found find(std::span<const std::int32_t> tokens) const;
  /// Leaves out blocks that are not in the pool, but for so many of the first ones.
  void keep(Found& found, std::size_t to_restore) const;

  [[nodiscard]] int blocks_for(TokenCount tokens) const {
    return int((tokens + block_ - 1) / block_);
  }
  /// Blocks that a sequence lacks for so many tokens.
  [[nodiscard]] int blocks_lacking(const SequenceBlocks& own, TokenCount tokens) const;
  /// True if there is room for `tokens` of the sequence that was looked for, and for so many blocks
  /// of others.
  [[nodiscard]] bool has_room(const Found& found, TokenCount tokens, int of_others) const;

  /// Gives a sequence without blocks what was found in the pool, and room for what was found in the
  /// other tiers. Returns the copies from there. Requires has_room() for both.
  struct Restored {
    std::vector<BlockCopy> from_host{}, from_disk{};
  };
  Restored admit(SequenceBlocks& own, const Found& found);
  /// Gives it room for `tokens` in all. False: there is not as much.
  bool grow(SequenceBlocks& own, TokenCount tokens);
  /// States that the sequence's first tokens are computed: others find full blocks of them from now
  /// on. Returns copies to the host's pool, and to the disk, which are to be made before the next
  /// step: the latter as far as a buffer.
  struct Kept {
    std::vector<BlockCopy> to_host{}, to_disk{};
  };
  Kept hold(SequenceBlocks& own, std::span<const std::int32_t> computed);
  /// Copies to the host that have failed: nothing is there.
  void forget_host_copies(std::span<const BlockCopy> copies);
  /// A block of the disk is written: it is found from now on.
  void written(int disk_block) { disk_.release(disk_block); }
  /// Blocks of the disk that are being written.
  [[nodiscard]] int being_written() const { return disk_.count() - disk_.free(); }
  /// Copies to the disk that were not made: nothing is there.
  void forget_disk_copies(std::span<const BlockCopy> copies);
  /// Nothing is on disk any more, nor will be.
  void drop_disk();
  /// It has ended, or gives up what it has.
  void release(SequenceBlocks& own);

  /// What of the bookkeeping contradicts the sequences that have blocks; empty: nothing.
  [[nodiscard]] std::string contradiction(std::span<const SequenceBlocks* const> sequences) const;

 private:
  int take();
  [[nodiscard]] std::span<const std::int32_t> block_of(std::span<const std::int32_t> tokens,
                                                       std::size_t index) const {
    return tokens.subspan(index * std::size_t(block_), std::size_t(block_));
  }
  [[nodiscard]] std::optional<KvTier> tier_of(PrefixTree::Node node) const;
  void store_on_host(PrefixTree::Node node, int block, std::vector<BlockCopy>& copies);
  void store_on_disk(PrefixTree::Node node, int block, std::vector<BlockCopy>& copies);
  void forget_disk_block(int block);

  const TokenCount block_;
  const bool prefix_cache_;
  BlockPool pool_, host_, disk_;  // of the disk: used blocks are those that are being written
  bool has_disk_;
  PrefixTree tree_;
};

}  // namespace rigcast::engine
