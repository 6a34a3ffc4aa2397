#pragma once
// A cache in blocks: every request takes blocks as it grows, and shares those that hold what its
// prompt begins with. Full blocks are copied to RAM when they have been computed, if there is a
// second tier: vLLM, v1/kv_offload; SGLang's hierarchical cache with its policy write_through.

#include <algorithm>
#include <vector>

#include "sim/serving/cache/kv_cache.hpp"
#include "sim/serving/cache/ram_blocks.hpp"

namespace rigcast {

class BlockCache : public KvCache {
 public:
  /// The tier and the log must outlive it.
  BlockCache(const SchedulerPolicy& policy, TokenCount tokens, const RamTier& ram,
             const RequestLog& log);

  [[nodiscard]] TokenCount longest_sequence() const override {
    return TokenCount(pool_.count()) * block_;
  }
  [[nodiscard]] std::size_t units() const override { return pool_.count(); }
  [[nodiscard]] std::size_t free_units() const override { return pool_.free(); }
  Found find(RequestId id) override;
  [[nodiscard]] std::size_t units_for(TokenCount tokens) const override {
    return blocks_for(tokens);
  }
  [[nodiscard]] std::size_t units_lacking(RequestId id, TokenCount tokens) const override {
    return blocks_for(tokens) - std::min(blocks_for(tokens), blocks_[id].size());
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
  // Prompts that begin alike name the same request's blocks.
  [[nodiscard]] BlockContent content(RequestId id, std::uint32_t index) const {
    return {log_.owner(id, TokenCount(index + 1) * block_), index};
  }

  const TokenCount block_;
  const bool shares_, in_step_;
  const TokenCount min_from_ram_;
  KvBlocks pool_;
  const RequestLog& log_;
  const Bytes block_bytes_;  // 0: there is no second tier
  RamBlocks ram_;
  std::size_t stored_ = 0;                    // blocks, since they were last asked for
  std::vector<std::vector<BlockId>> blocks_;  // by request
  std::vector<TokenCount> held_;              // of these, whose content is stated
  std::vector<BlockId> hits_;                 // of what was looked for last
};

}  // namespace rigcast
