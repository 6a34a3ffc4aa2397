#pragma once
// A cache in slots: every request has one, which keeps what it holds for the next. What a slot is
// about to lose, and what slots without a request hold, is saved to RAM if there is a second tier:
// llama-server, tools/server/server-context.cpp, get_available_slot() and cache_idle_slots.

#include <optional>
#include <utility>
#include <vector>

#include "sim/serving/cache/kv_cache.hpp"
#include "sim/serving/cache/ram_states.hpp"

namespace rigcast {

class SlotCache : public KvCache {
 public:
  /// The tier and the log must outlive it.
  SlotCache(const SchedulerPolicy& policy, TokenCount tokens, const RamTier& ram,
            const RequestLog& log);

  [[nodiscard]] TokenCount longest_sequence() const override { return slot_tokens_; }
  [[nodiscard]] std::size_t units() const override { return slots_.size(); }
  [[nodiscard]] std::size_t free_units() const override { return free_; }
  Found find(RequestId id) override;
  // A slot is all that a request needs.
  [[nodiscard]] std::size_t units_for(TokenCount) const override { return 0; }
  [[nodiscard]] std::size_t units_lacking(RequestId, TokenCount) const override { return 0; }
  [[nodiscard]] bool has_room(TokenCount tokens, std::size_t) const override {
    return choice_ && tokens <= slot_tokens_;
  }
  void admit(RequestId id) override;
  bool grow(RequestId id, TokenCount tokens) override;
  [[nodiscard]] bool can_grow(const std::vector<RequestId>& ids, TokenCount more) const override;
  void release(RequestId id) override;
  [[nodiscard]] std::size_t place(RequestId id) const override { return slot_of_[id]; }
  Copies take_copies() override { return std::exchange(copies_, {}); }

 private:
  struct Slot {
    bool used = false;
    std::optional<RequestId> request;  // that it holds
    TokenCount tokens = 0;             // of it; while it is used: for which it has room
    std::size_t ended = 0;             // when, in the order of releases
  };
  // The slot for a request, and what becomes of RAM if it gets it.
  struct Choice {
    std::size_t slot;
    TokenCount shared;  // with what the slot holds
    std::optional<RamStates> states;
    Copies copies;
    std::optional<RamStates::State> loaded;
  };

  [[nodiscard]] TokenCount held_of(const Slot& slot, RequestId id) const {
    return slot.request ? std::min(slot.tokens, log_.common_prefix(*slot.request, id)) : 0;
  }
  [[nodiscard]] std::optional<Choice> choose(RequestId id) const;
  void exchange(Choice& choice, RequestId id, bool is_alike) const;
  void save_idle();
  [[nodiscard]] bool fits(std::size_t slot, TokenCount tokens) const;
  bool clear_idle();

  const double similarity_;
  const bool keeps_, unified_;
  const TokenCount cells_, slot_tokens_;
  const RamTier& ram_;
  std::vector<Slot> slots_;
  std::size_t free_, releases_ = 0;
  const RequestLog& log_;
  std::optional<RamStates> states_;   // nullopt: there is no second tier
  std::vector<std::size_t> slot_of_;  // by request
  std::optional<Choice> choice_;      // for what was looked for last
  Copies copies_;
};

}  // namespace rigcast
