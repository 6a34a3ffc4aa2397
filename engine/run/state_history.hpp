#pragma once
// Which tokens of a sequence the states of recurrent layers have seen. A state cannot be cut: one
// is kept as it was after the last prompt, and a state of fewer tokens begins from there, or empty,
// and sees the tokens behind anew.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/units.hpp"

namespace rigcast::engine {

class StateHistory {
 public:
  /// Where a state begins: as the kept one, or empty.
  struct Begin {
    bool kept = false;
    TokenCount tokens = 0;  // that it has seen then
  };
  /// How to make a state that has seen the first `cached` tokens; nullopt: it is there.
  std::optional<Begin> begin_of(TokenCount cached);
  /// The ids of tokens [first, last), which are behind those that were filled.
  std::vector<std::int32_t> tokens(TokenCount first, TokenCount last) const;

  /// The state is a step's from now on, until it has seen so many tokens.
  void lose() { at_ = -1; }
  void reach(TokenCount tokens) { at_ = tokens; }
  /// Tokens were computed, with which the sequence has `cached`. True: their state has to be kept.
  bool append(std::span<const std::int32_t> tokens, TokenCount cached);
  void truncate(TokenCount tokens);
  /// The sequence's first tokens are random ones, up to `cached`. Any state is as good as theirs.
  void fill(TokenCount cached);

 private:
  std::vector<std::int32_t> history_;  // ids of tokens behind the filled ones
  TokenCount filled_ = 0;
  TokenCount at_ = 0, kept_at_ = -1;  // tokens that the states have seen; -1: unknown
};

}  // namespace rigcast::engine
