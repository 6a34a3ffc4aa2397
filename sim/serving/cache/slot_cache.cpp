#include "sim/serving/cache/slot_cache.hpp"

#include <algorithm>
#include <utility>

namespace rigcast {

SlotCache::SlotCache(const SchedulerPolicy& policy, TokenCount tokens, const RamTier& ram,
                     const RequestLog& log)
    : similarity_(policy.slot_similarity),
      keeps_(policy.prefix_cache),
      unified_(policy.unified),
      cells_(tokens),
      slot_tokens_(policy.unified ? tokens : tokens / TokenCount(policy.sequences)),
      ram_(ram),
      slots_(policy.sequences),
      free_(policy.sequences),
      log_(log) {
  if (keeps_ && ram.capacity.value > 0) states_.emplace(ram, log);
}

KvCache::Found SlotCache::find(RequestId id) {
  choice_ = choose(id);
  if (!choice_) return {};
  const TokenCount most = log_.known(id) - 1;
  if (choice_->loaded) {
    const RamStates::State s = *choice_->loaded;
    return {0, std::min({s.tokens, log_.common_prefix(s.request, id), most})};
  }
  return {std::min(choice_->shared, most), 0};
}

std::optional<SlotCache::Choice> SlotCache::choose(RequestId id) const {
  const TokenCount known = log_.known(id);
  std::optional<std::size_t> best;
  TokenCount best_alike = 0, shared = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.used) continue;
    const TokenCount held = keeps_ ? held_of(slot, id) : 0;
    const TokenCount alike = double(held) > similarity_ * double(known) ? held : 0;
    const bool better = !best || alike > best_alike ||
                        (alike == 0 && best_alike == 0 && slot.ended < slots_[*best].ended);
    if (!better) continue;
    best = i;
    best_alike = alike;
    shared = held;
  }
  if (!best) return std::nullopt;
  Choice choice{*best, shared, {}, {}, {}};
  if (states_) exchange(choice, id, best_alike > 0);
  return choice;
}

// A slot that is not alike, or would lose more than half of what it holds, is saved, and takes a
// state that has more of the request, if there is one.
void SlotCache::exchange(Choice& choice, RequestId id, bool is_alike) const {
  const Slot& slot = slots_[choice.slot];
  if (is_alike && 2 * choice.shared >= slot.tokens) return;
  choice.states = states_;
  if (slot.request) choice.copies.to_ram = choice.states->save({*slot.request, slot.tokens});
  choice.loaded = choice.states->take_better(id, choice.shared, slot.tokens);
  if (choice.loaded) choice.copies.to_gpu = ram_.bytes_of(choice.loaded->tokens);
}

void SlotCache::admit(RequestId id) {
  if (choice_->states) states_ = std::move(choice_->states);
  copies_.to_ram += choice_->copies.to_ram;
  copies_.to_gpu += choice_->copies.to_gpu;
  Slot& slot = slots_[choice_->slot];
  slot.used = true;
  slot.request = id;
  const RamStates::State none{id, 0};
  const RamStates::State loaded = choice_->loaded.value_or(none);
  slot.tokens = choice_->loaded ? std::min(loaded.tokens, log_.common_prefix(loaded.request, id))
                                : choice_->shared;
  --free_;
  if (id >= slot_of_.size()) slot_of_.resize(std::max(std::size_t(id) + 1, log_.size()));
  slot_of_[id] = choice_->slot;
  if (states_) save_idle();
}

// With one cache for all slots they are cleared as well, so that there is room for others.
void SlotCache::save_idle() {
  for (Slot& slot : slots_) {
    if (slot.used || !slot.request || slot.tokens == 0) continue;
    copies_.to_ram += states_->save({*slot.request, slot.tokens});
    if (!unified_) continue;
    slot.request.reset();
    slot.tokens = 0;
  }
}

bool SlotCache::fits(std::size_t slot, TokenCount tokens) const {
  if (!unified_) return tokens <= slot_tokens_;
  TokenCount sum = tokens;
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (i != slot) sum += slots_[i].tokens;
  return sum <= cells_;
}

// False: no slot without a request holds anything.
bool SlotCache::clear_idle() {
  const auto idle =
      std::ranges::find_if(slots_, [](const Slot& s) { return !s.used && s.tokens > 0; });
  if (idle == slots_.end()) return false;
  idle->request.reset();
  idle->tokens = 0;
  return true;
}

bool SlotCache::grow(RequestId id, TokenCount tokens) {
  while (!fits(slot_of_[id], tokens))
    if (!unified_ || !clear_idle()) return false;
  slots_[slot_of_[id]].tokens = tokens;
  return true;
}

bool SlotCache::can_grow(const std::vector<RequestId>& ids, TokenCount more) const {
  if (!unified_) return true;
  TokenCount sum = 0;
  for (const RequestId id : ids) sum += log_.state(id).computed + more;
  for (const Slot& slot : slots_)
    if (!slot.used) sum += slot.tokens;
  return sum <= cells_;
}

void SlotCache::release(RequestId id) {
  Slot& slot = slots_[slot_of_[id]];
  slot.used = false;
  slot.tokens = log_.state(id).computed;
  slot.ended = ++releases_;
  ++free_;
}

}  // namespace rigcast
