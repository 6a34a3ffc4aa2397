#pragma once
// All requests that have arrived at a server, and how far each has come.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "load/arrivals.hpp"

namespace rigcast {

using RequestId = std::uint32_t;  // in order of arrival

class RequestLog {
 public:
  /// How far a request has come.
  struct State {
    TokenCount computed = 0;   // tokens whose KV is there
    TokenCount under_way = 0;  // tokens behind those in steps that have begun: of a pipeline alone
    int steps = 0;             // of a pipeline, that have begun with tokens of it
    TokenCount generated = 0;  // tokens of the answer that are known
    /// Tokens that no step has to compute any more.
    [[nodiscard]] TokenCount begun() const { return computed + under_way; }
  };

  void add(const ServedRequest& request) {
    requests_.push_back(request);
    states_.emplace_back();
  }
  [[nodiscard]] std::size_t size() const { return requests_.size(); }
  [[nodiscard]] const ServedRequest& operator[](RequestId id) const { return requests_[id]; }
  State& state(RequestId id) { return states_[id]; }
  [[nodiscard]] const State& state(RequestId id) const { return states_[id]; }
  [[nodiscard]] const std::vector<ServedRequest>& requests() const { return requests_; }

  /// Tokens of prompt and answer so far.
  [[nodiscard]] TokenCount known(RequestId id) const {
    return requests_[id].prompt + states_[id].generated;
  }
  [[nodiscard]] bool has_ended(RequestId id) const {
    return states_[id].generated >= requests_[id].output;
  }
  /// Tokens of which the cache holds keys and values when it ends: the last one is not computed.
  [[nodiscard]] TokenCount longest(RequestId id) const {
    return requests_[id].prompt + requests_[id].output - 1;
  }

  /// The first request of those that begin with the same `tokens` tokens.
  [[nodiscard]] RequestId owner(RequestId id, TokenCount tokens) const {
    while (requests_[id].continues && tokens <= requests_[id].shared)
      id = RequestId(*requests_[id].continues);
    return id;
  }
  struct Owned {
    RequestId owner;
    TokenCount until;
  };
  /// That request, and up to how many tokens, at most so many, it is the same.
  [[nodiscard]] Owned owner_until(RequestId id, TokenCount tokens, TokenCount at_most) const {
    while (requests_[id].continues && tokens <= requests_[id].shared) {
      at_most = std::min(at_most, requests_[id].shared);
      id = RequestId(*requests_[id].continues);
    }
    return {id, at_most};
  }
  /// Tokens with which both requests begin.
  [[nodiscard]] TokenCount common_prefix(RequestId a, RequestId b) const;

 private:
  std::vector<ServedRequest> requests_;
  std::vector<State> states_;
};

}  // namespace rigcast
