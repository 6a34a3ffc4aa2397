#include "sim/serving/kv_cache.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "sim/serving/kv_blocks.hpp"

namespace rigcast {
namespace {

class BlockCache : public KvCache {
 public:
  BlockCache(const SchedulerPolicy& policy, TokenCount tokens, const RequestLog& log)
      : block_(policy.block_tokens),
        shares_(policy.prefix_cache),
        in_step_(policy.shares_in_step),
        pool_(std::size_t(tokens / policy.block_tokens)),
        log_(log) {}

  TokenCount longest_sequence() const override { return TokenCount(pool_.count()) * block_; }
  std::size_t units() const override { return pool_.count(); }
  std::size_t free_units() const override { return pool_.free(); }

  TokenCount find(RequestId id) override {
    hits_.clear();
    if (shares_) {
      const auto full = std::uint32_t((log_.known(id) - 1) / block_);
      for (std::uint32_t index = 0; index < full; ++index) {
        const auto block = pool_.find(content(id, index));
        if (!block) break;
        hits_.push_back(*block);
      }
    }
    return TokenCount(hits_.size()) * block_;
  }

  std::size_t units_for(TokenCount tokens) const override { return blocks_for(tokens); }
  std::size_t units_lacking(RequestId id, TokenCount tokens) const override {
    return blocks_for(tokens) - std::min(blocks_for(tokens), blocks_[id].size());
  }

  bool has_room(TokenCount tokens, std::size_t of_others) const override {
    // Blocks that nobody uses any more but that hold what was found are free as yet.
    const auto unused = std::size_t(
        std::ranges::count_if(hits_, [&](BlockId block) { return pool_.is_free(block); }));
    const std::size_t wanted = blocks_for(tokens) - std::min(blocks_for(tokens), hits_.size());
    return wanted + unused + of_others <= pool_.free();
  }

  void admit(RequestId id) override {
    if (id >= blocks_.size()) blocks_.resize(std::max(std::size_t(id) + 1, log_.size()));
    if (id >= held_.size()) held_.resize(blocks_.size());
    for (const BlockId block : hits_) pool_.share(block);
    blocks_[id] = hits_;
    held_[id] = TokenCount(hits_.size());
  }

  bool grow(RequestId id, TokenCount tokens) override {
    std::vector<BlockId>& own = blocks_[id];
    const std::size_t wanted = blocks_for(tokens);
    if (wanted > own.size() && wanted - own.size() > pool_.free()) return false;
    while (own.size() < wanted) own.push_back(pool_.take());
    hold(id, in_step_ ? tokens : log_.state(id).computed);
    return true;
  }

  bool can_grow(const std::vector<RequestId>& ids, TokenCount more) const override {
    std::size_t sum = 0;
    for (const RequestId id : ids) sum += units_lacking(id, log_.state(id).computed + more);
    return sum <= pool_.free();
  }

  void release(RequestId id) override {
    if (!in_step_) hold(id, log_.state(id).computed);
    pool_.release(blocks_[id]);
    blocks_[id].clear();
  }

  std::size_t place(RequestId) const override { return 0; }

 private:
  // Full blocks can be shared as soon as they are given: in a step, the keys and values of all
  // prompts are written before attention reads them. See vLLM's kv_cache_manager.py,
  // allocate_slots(). Other servers offer them when the step has ended.
  void hold(RequestId id, TokenCount tokens) {
    if (!shares_) return;
    TokenCount& held = held_[id];
    for (; (held + 1) * block_ <= tokens; ++held)
      pool_.hold(blocks_[id][std::size_t(held)], content(id, std::uint32_t(held)));
  }

  std::size_t blocks_for(TokenCount tokens) const {
    return std::size_t((tokens + block_ - 1) / block_);
  }
  // Prompts that begin alike name the same request's blocks.
  BlockContent content(RequestId id, std::uint32_t index) const {
    return {log_.owner(id, TokenCount(index + 1) * block_), index};
  }

  const TokenCount block_;
  const bool shares_, in_step_;
  KvBlocks pool_;
  const RequestLog& log_;
  std::vector<std::vector<BlockId>> blocks_;  // by request
  std::vector<TokenCount> held_;              // of these, whose content is stated
  std::vector<BlockId> hits_;                 // of what was looked for last
};

class SlotCache : public KvCache {
 public:
  SlotCache(const SchedulerPolicy& policy, TokenCount tokens, const RequestLog& log)
      : similarity_(policy.slot_similarity),
        keeps_(policy.prefix_cache),
        slot_tokens_(tokens / TokenCount(policy.sequences)),
        slots_(policy.sequences),
        free_(policy.sequences),
        log_(log) {}

  TokenCount longest_sequence() const override { return slot_tokens_; }
  std::size_t units() const override { return slots_.size(); }
  std::size_t free_units() const override { return free_; }

  TokenCount find(RequestId id) override {
    found_.reset();
    found_tokens_ = 0;
    const TokenCount known = log_.known(id);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const Slot& slot = slots_[i];
      if (slot.used) continue;
      const TokenCount held = keeps_ ? held_of(slot, id) : 0;
      const TokenCount alike = double(held) > similarity_ * double(known) ? held : 0;
      const bool better = !found_ || alike > alike_ ||
                          (alike == 0 && alike_ == 0 && slot.ended < slots_[*found_].ended);
      if (!better) continue;
      found_ = i;
      alike_ = alike;
      found_tokens_ = std::min(held, known - 1);
    }
    return found_tokens_;
  }

  // A slot is all that a request needs.
  std::size_t units_for(TokenCount) const override { return 0; }
  std::size_t units_lacking(RequestId, TokenCount) const override { return 0; }

  bool has_room(TokenCount tokens, std::size_t) const override {
    return found_ && tokens <= slot_tokens_;
  }

  void admit(RequestId id) override {
    Slot& slot = slots_[*found_];
    slot.used = true;
    slot.request = id;
    --free_;
    if (id >= slot_of_.size()) slot_of_.resize(std::max(std::size_t(id) + 1, log_.size()));
    slot_of_[id] = *found_;
  }

  bool grow(RequestId, TokenCount tokens) override { return tokens <= slot_tokens_; }
  bool can_grow(const std::vector<RequestId>&, TokenCount) const override { return true; }
  void release(RequestId id) override {
    Slot& slot = slots_[slot_of_[id]];
    slot.used = false;
    slot.tokens = log_.state(id).computed;
    slot.ended = ++releases_;
    ++free_;
  }

  std::size_t place(RequestId id) const override { return slot_of_[id]; }

 private:
  struct Slot {
    bool used = false;
    std::optional<RequestId> request;  // that it holds
    TokenCount tokens = 0;             // of it
    std::size_t ended = 0;             // when, in the order of releases
  };

  TokenCount held_of(const Slot& slot, RequestId id) const {
    return slot.request ? std::min(slot.tokens, log_.common_prefix(*slot.request, id)) : 0;
  }

  const double similarity_;
  const bool keeps_;
  const TokenCount slot_tokens_;
  std::vector<Slot> slots_;
  std::size_t free_, releases_ = 0;
  const RequestLog& log_;
  std::vector<std::size_t> slot_of_;  // by request
  std::optional<std::size_t> found_;  // what was looked for last
  TokenCount found_tokens_ = 0, alike_ = 0;
};

}  // namespace

std::unique_ptr<KvCache> make_kv_cache(const SchedulerPolicy& policy, TokenCount tokens,
                                       const RequestLog& log) {
  if (policy.layout == KvLayout::kSlots) return std::make_unique<SlotCache>(policy, tokens, log);
  return std::make_unique<BlockCache>(policy, tokens, log);
}

}  // namespace rigcast
