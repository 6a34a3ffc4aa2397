#include "engine/run/state_history.hpp"

#include <algorithm>

namespace rigcast::engine {

std::optional<StateHistory::Begin> StateHistory::begin_of(TokenCount cached) {
  if (filled_ > 0) at_ = cached;
  if (at_ == cached) return std::nullopt;
  const bool kept = kept_at_ >= 0 && kept_at_ <= cached;
  return Begin{kept, kept ? kept_at_ : 0};
}

std::vector<std::int32_t> StateHistory::tokens(TokenCount first, TokenCount last) const {
  const auto at = [&](TokenCount i) { return history_.begin() + std::ptrdiff_t(i - filled_); };
  return {at(first), at(last)};
}

bool StateHistory::append(std::span<const std::int32_t> tokens, TokenCount cached) {
  history_.insert(history_.end(), tokens.begin(), tokens.end());
  if (tokens.size() == 1) return false;
  kept_at_ = cached;
  return true;
}

void StateHistory::truncate(TokenCount tokens) {
  if (kept_at_ > tokens) kept_at_ = -1;
  filled_ = std::min(filled_, tokens);
  history_.resize(std::min(history_.size(), std::size_t(tokens - filled_)));
}

void StateHistory::fill(TokenCount cached) {
  filled_ = at_ = cached;
  history_.clear();
}

}  // namespace rigcast::engine
