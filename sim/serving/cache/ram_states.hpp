#pragma once
// llama-server's cache of prompts in RAM: whole states of slots. tools/server/server-task.cpp,
// server_prompt_cache.

#include <deque>
#include <optional>

#include "sim/serving/cache/ram_tier.hpp"
#include "sim/serving/cache/request_log.hpp"

namespace rigcast {

class RamStates {
 public:
  /// The first tokens of prompt and answer of a request.
  struct State {
    RequestId request;
    TokenCount tokens;
  };

  /// Both must outlive it.
  RamStates(const RamTier& tier, const RequestLog& log) : tier_(&tier), log_(&log) {}

  /// Keeps a state, in place of those that it begins with; the oldest ones make room. Returns what
  /// is copied: nothing if one holds it already, or it is larger than the whole cache.
  Bytes save(State state);
  /// Of the states that share more with a request than what a slot holds, and of which more is kept
  /// than of that, at least a quarter, the best one. It is no longer here. `shared`: what the
  /// slot's `held` tokens have in common with the request.
  std::optional<State> take_better(RequestId id, TokenCount shared, TokenCount held);
  [[nodiscard]] Bytes size() const { return size_; }

 private:
  TokenCount common(State a, RequestId request) const {
    return std::min(a.tokens, log_->common_prefix(a.request, request));
  }
  void erase(std::deque<State>::iterator at);

  const RamTier* tier_;
  const RequestLog* log_;
  std::deque<State> states_;  // the oldest first
  Bytes size_{};
};

}  // namespace rigcast
