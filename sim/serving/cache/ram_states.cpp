#include "sim/serving/cache/ram_states.hpp"

#include <algorithm>

namespace rigcast {

Bytes RamStates::save(State state) {
  const Bytes bytes = tier_->bytes_of(state.tokens);
  const bool is_held = std::ranges::any_of(states_, [&](State s) {
    return s.tokens >= state.tokens && common(s, state.request) >= state.tokens;
  });
  if (state.tokens == 0 || is_held || bytes > tier_->capacity) return {};
  for (auto s = states_.begin(); s != states_.end();) {
    const bool is_beginning = s->tokens <= state.tokens && common(*s, state.request) == s->tokens;
    if (!is_beginning) {
      ++s;
      continue;
    }
    size_ -= tier_->bytes_of(s->tokens);
    s = states_.erase(s);
  }
  while (!states_.empty() && size_ + bytes > tier_->capacity) erase(states_.begin());
  states_.push_back(state);
  size_ += bytes;
  return bytes;
}

std::optional<RamStates::State> RamStates::take_better(RequestId id, TokenCount shared,
                                                       TokenCount held) {
  constexpr double kMinKept = 0.25;  // else a long prompt would be lost for a short one
  double most_kept = held > 0 ? double(shared) / double(held) : -1;
  TokenCount most_shared = shared;
  auto best = states_.end();
  for (auto s = states_.begin(); s != states_.end(); ++s) {
    const TokenCount own = common(*s, id);
    const double kept = double(own) / double(s->tokens);
    if (kept < kMinKept || kept <= most_kept || own <= most_shared) continue;
    most_kept = kept;
    most_shared = own;
    best = s;
  }
  if (best == states_.end()) return std::nullopt;
  const State found = *best;
  erase(best);
  return found;
}

void RamStates::erase(std::deque<State>::iterator at) {
  size_ -= tier_->bytes_of(at->tokens);
  states_.erase(at);
}

}  // namespace rigcast
