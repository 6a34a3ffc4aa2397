#pragma once
// What remains of a sequence whose layers with a window keep their last blocks alone, as rings: a
// block takes the place of the one that is as many blocks older as the ring has.

#include <algorithm>

#include "core/model/model_spec.hpp"

namespace rigcast::engine {

class WindowRing {
 public:
  WindowRing() = default;  // no layer is a ring: all tokens remain
  /// `blocks`: of a ring; 0: there is none.
  WindowRing(const ModelSpec& spec, TokenCount blocks, TokenCount block_tokens)
      : window_(spec.window ? spec.window->tokens : 0),
        blocks_(spec.window ? blocks : 0),
        block_tokens_(block_tokens) {}

  /// Tokens up to `end` are written from now on.
  void write(TokenCount end) { furthest_ = std::max(furthest_, end); }

  /// How many of the first `tokens` tokens the next one can follow: all of them, or none if the
  /// rings no longer have those that it would attend to.
  TokenCount truncate(TokenCount tokens) {
    if (blocks_ > 0 && std::max<TokenCount>(0, tokens + 1 - window_) < oldest()) tokens = 0;
    if (tokens == 0) furthest_ = 0;
    return tokens;
  }

 private:
  // The first token that no later one has taken the place of.
  TokenCount oldest() const {
    const TokenCount written = (furthest_ + block_tokens_ - 1) / block_tokens_;
    return std::max<TokenCount>(0, written - blocks_) * block_tokens_;
  }

  TokenCount window_ = 0, blocks_ = 0, block_tokens_ = 1;
  TokenCount furthest_ = 0;  // the end of what was written since the sequence was empty
};

}  // namespace rigcast::engine
