#pragma once
// A cache in blocks: every request takes blocks as it grows, and shares those that hold what its
// prompt begins with. Full blocks are copied to RAM when they have been computed, if there is a
// second tier: vLLM, v1/kv_offload; SGLang's hierarchical cache with its policy write_through.
//
// Layers with a window may have blocks of their own, of the same pool, for no more tokens than the
// window has (vLLM, v1/core/kv_cache_utils.py, groups of layers). What a prompt shares of those is
// taken to be there whenever the other layers have it.

#include <algorithm>
#include <vector>

#include "sim/serving/cache/kv_cache.hpp"
#include "sim/serving/cache/ram_blocks.hpp"

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
    return lacking(blocks_for(tokens), blocks_[id].size()) +
           lacking(window_blocks_for(tokens), windows_[id].size());
  }
  [[nodiscard]] bool has_room(TokenCount tokens, std::size_t of_others) const override;
  void admit(RequestId id) override;
  void reserve(RequestId id, TokenCount tokens) override;
  bool grow(RequestId id, TokenCount tokens) override;
  [[nodiscard]] bool can_grow(const std::vector<RequestId>& ids, TokenCount more) const override;
  void release(RequestId id) override;
  [[nodiscard]] std::size_t place(RequestId) const override { return 0; }
  Copies take_copies() override;

 private:
  void hold(RequestId id, TokenCount tokens);
  [[nodiscard]] std::size_t blocks_for(TokenCount tokens) const {
    return std::size_t((tokens + block_ - 1) / block_);
  }
  [[nodiscard]] std::size_t window_blocks_for(TokenCount tokens) const {
    return room_.windows.of(tokens, block_);
  }
  static std::size_t lacking(std::size_t wanted, std::size_t own) {
    return wanted - std::min(wanted, own);
  }
  void take_until(std::vector<BlockId>& own, std::size_t wanted) {
    while (own.size() < wanted) own.push_back(pool_.take());
  }
  // Prompts that begin alike name the same request's blocks.
  [[nodiscard]] BlockContent content(RequestId id, std::uint32_t index) const {
    return {log_.owner(id, TokenCount(index + 1) * block_), index};
  }

  const TokenCount block_;
  const CacheRoom room_;
  const bool shares_, in_step_;
  const TokenCount min_from_ram_;
  KvBlocks pool_;
  const RequestLog& log_;
  const Bytes block_bytes_;  // 0: there is no second tier
  RamBlocks ram_;
  std::size_t stored_ = 0;                     // blocks, since they were last asked for
  std::vector<std::vector<BlockId>> blocks_;   // by request, of layers that keep all tokens
  std::vector<std::vector<BlockId>> windows_;  // by request, of the others
  std::vector<TokenCount> held_;               // of these, whose content is stated
  std::vector<BlockId> hits_;                  // of what was looked for last
};

}  // namespace rigcast
