#pragma once
// A cache in blocks: every request takes blocks as it grows, and shares those that hold what its
// prompt begins with. Full blocks are copied to RAM when they have been computed, if there is a
// second tier: vLLM, v1/kv_offload; SGLang's hierarchical cache with its policy write_through.
//
// Layers with a window may have blocks of their own, of the same pool, for no more tokens than the
// window has (vLLM, v1/core/kv_cache_utils.py, groups of layers). What a prompt shares of those is
// taken to be there whenever the other layers have it.
//
// Where requests have more than blocks, what is shared ends at a checkpoint of it.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/serving/cache/checkpoints.hpp"
#include "sim/serving/cache/kv_blocks.hpp"
#include "sim/serving/cache/kv_cache.hpp"
#include "sim/serving/cache/ram_blocks.hpp"
#include "sim/serving/cache/restore_choice.hpp"

namespace rigcast {

class BlockCache : public KvCache {
 public:
  /// The tier and the log must outlive it.
  BlockCache(const SchedulerPolicy& policy, const CacheRoom& room, const RamTier& ram,
             const RequestLog& log);

  [[nodiscard]] TokenCount longest_sequence() const override;
  [[nodiscard]] std::size_t units() const override { return pool_.count(); }
  [[nodiscard]] std::size_t free_units() const override { return pool_.free(); }
  Found find(RequestId id) override;
  [[nodiscard]] std::size_t units_for(TokenCount tokens) const override {
    return blocks_for(tokens) + window_blocks_for(tokens);
  }
  [[nodiscard]] std::size_t units_lacking(RequestId id, TokenCount tokens) const override {
    return lacking(blocks_for(tokens), own_[id].taken) +
           lacking(window_blocks_for(tokens), own_[id].windows);
  }
  [[nodiscard]] bool has_room(TokenCount tokens, std::size_t of_others) const override;
  void admit(RequestId id) override;
  void reserve(RequestId id, TokenCount tokens) override;
  bool grow(RequestId id, TokenCount tokens) override;
  [[nodiscard]] bool can_grow(const std::vector<RequestId>& ids, TokenCount more) const override;
  void release(RequestId id) override;
  [[nodiscard]] std::size_t place(RequestId) const override { return 0; }
  Copies take_copies() override;
  void computed_prompts(TokenCount tokens, Seconds took) override {
    choice_.computed(tokens, took);
  }
  [[nodiscard]] double prompt_rate() const override { return choice_.prompt_rate(); }

 private:
  // Blocks of which it is known whether others hold the same.
  struct Part {
    BlockRun blocks;
    bool findable;  // false: others do, and these are found by nobody
  };
  // What a request has.
  struct Own {
    std::size_t taken = 0,
                windows = 0;   // blocks: of layers that keep all tokens, and of the others
    std::uint32_t stated = 0;  // first ones of the former, which are in `parts`
    // Blocks behind which a checkpoint is taken: where it and others part, and near the end of its
    // prompt; and the one that was taken last within its answer.
    std::uint32_t parts_at = 0, last_of_prompt = 0;
    std::uint64_t of_answer = 0;
    std::vector<Part> parts;
  };

  void hold(RequestId id, TokenCount tokens);
  void cut_to_checkpoint(RequestId id, std::uint32_t& here);
  void take_checkpoints(RequestId id, std::uint32_t before, TokenCount tokens);
  void find_behind(RequestId id, std::uint32_t here, std::uint32_t full);
  [[nodiscard]] std::uint32_t held_on_disk_alone(const BlockRun& run) const;
  [[nodiscard]] Found choose(TokenCount here) const;
  void release_blocks(const Own& own);
  [[nodiscard]] std::size_t blocks_for(TokenCount tokens) const {
    return std::size_t((tokens + block_ - 1) / block_);
  }
  [[nodiscard]] std::size_t window_blocks_for(TokenCount tokens) const {
    return room_.windows.of(tokens, block_);
  }
  static std::size_t lacking(std::size_t wanted, std::size_t own) {
    return wanted - std::min(wanted, own);
  }
  void take_until(std::size_t& own, std::size_t wanted) {
    if (own >= wanted) return;
    pool_.take(wanted - own);
    own = wanted;
  }
  // The request's blocks from `begin` up to `end`, or as many as hold tokens of the same owner: of
  // prompts that begin alike, the first one's.
  [[nodiscard]] BlockRun run_of(RequestId id, std::uint32_t begin, std::uint32_t end) const {
    const auto owned =
        log_.owner_until(id, TokenCount(begin + 1) * block_, TokenCount(end) * block_);
    return {owned.owner, begin, std::uint32_t(owned.until / block_)};
  }

  const TokenCount block_;
  const CacheRoom room_;
  const bool shares_, in_step_;
  const TokenCount min_from_ram_;
  KvBlocks pool_;
  const RequestLog& log_;
  const Bytes block_bytes_;  // 0: there is no second tier
  RamBlocks ram_, disk_;
  RestoreChoice choice_;
  std::size_t stored_ = 0, written_ = 0;  // blocks, since they were last asked for
  std::vector<Own> own_;                  // by request
  std::vector<BlockRun> hits_;            // of what was looked for last
  std::size_t hit_count_ = 0;
  std::vector<FoundRun> behind_;  // them, in RAM and on disk
  std::uint32_t known_ = 0;       // blocks, of use or not
  Checkpoints checkpoints_;
};

}  // namespace rigcast
