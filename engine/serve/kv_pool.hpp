#pragma once
// Who has which blocks of a batch executor's pool, and what blocks still hold of requests that have
// ended: in the pool, in the host's pool behind it, and on disk. Where sequences have a state
// beside their blocks, they are found as far as a checkpoint of it reaches. So they are where
// layers with a window have a pool of their own, in which a sequence has no more than its window: a
// checkpoint holds the blocks of one.

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
  /// Of layers with a window, as many as `blocks`: those from `windows_from` on are its own, the
  /// others nobody's. None where these have no pool of their own.
  std::vector<int> window_blocks{};
  std::size_t windows_from = 0;
  int checkpoint = -1;  // that its state begins with, which nobody overwrites; -1: none
  // The checkpoint that was taken last, within its answer: its next one takes the place of it.
  int own_checkpoint = -1;
  PrefixTree::Node at_own = PrefixTree::kRoot;  // what that was taken behind
};

class KvPool {
 public:
  /// `prefix_cache`: what blocks hold is found by others; else it is lost with its sequence, and
  /// nothing is moved to the host. `disk_blocks`: of a store on disk; 0: there is none. Sequences
  /// have states if there are checkpoints of them.
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
    int checkpoint = -1;  // of the state behind these; -1: none
    /// Tokens whose keys and values are somewhere: more than can be used without their state.
    TokenCount known_tokens = 0;
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
  /// Gives up the blocks of layers with a window of which no token is within the window of those
  /// behind the `computed` first ones.
  void leave_windows(SequenceBlocks& own, TokenCount computed);
  /// True if sequences have a state, without which their blocks are of no use to others.
  [[nodiscard]] bool keeps_states() const { return checkpoints_.count() > 0; }
  /// The last place of a prompt at which a checkpoint of its state serves a later turn: the end of
  /// a full block, before tokens with which an answer begins, which that turn may have otherwise.
  [[nodiscard]] TokenCount last_checkpoint(TokenCount prompt) const;
  /// The state of a sequence, which has seen the tokens of its findable blocks, is to be copied to
  /// this checkpoint; nullopt: there is one, or all are waited for. `of_answer`: it takes the place
  /// of its own last one.
  std::optional<int> take_checkpoint(SequenceBlocks& own, bool of_answer);
  /// The copy has failed.
  void forget_checkpoint(int checkpoint);
  /// Its state is what the checkpoint was that it was admitted with.
  void restored(SequenceBlocks& own);
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
  void keep_fewer(Found& found) const;
  void cut_to_checkpoint(Found& found) const;

  const TokenCount block_;
  const bool prefix_cache_;
  BlockPool pool_, host_, disk_;  // of the disk: used blocks are those that are being written
  // Of states: content is what they have seen, users are sequences that are to begin with them.
  BlockPool checkpoints_;
  // Of layers with a window. Who has a block of it are sequences and checkpoints; what nobody has
  // is lost.
  struct HeldWindow {
    std::size_t from = 0;  // the first one's place among a sequence's blocks
    std::vector<int> blocks{};
  };
  BlockPool windows_;
  TokenCount window_;
  std::vector<HeldWindow> held_;  // by checkpoint
  bool has_disk_;
  PrefixTree tree_;
};

}  // namespace rigcast::engine
