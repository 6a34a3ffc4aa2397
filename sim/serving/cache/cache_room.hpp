#pragma once
// What a server's KV cache has room for.

#include <algorithm>
#include <cmath>

#include "core/base/units.hpp"

namespace rigcast {

struct CacheRoom {
  // NOLINTNEXTLINE(google-explicit-constructor): most models have no windows
  CacheRoom(TokenCount all) : tokens(all) {}
  CacheRoom(TokenCount all, TokenCount window_tokens, double blocks)
      : tokens(all), window(window_tokens), window_blocks(blocks) {}

  TokenCount tokens;      // of the layers that keep all tokens of a request, if they had it alone
  TokenCount window = 0;  // that the other layers keep of each request; 0: there are none
  double window_blocks = 0;  // of blocks of those layers, for one of the layers that keep all

  /// Blocks of the layers with a window that a request with `tokens` has, for blocks of `block`
  /// tokens. A window begins and ends within a block.
  [[nodiscard]] std::size_t blocks_of_windows(TokenCount request, TokenCount block) const {
    if (window <= 0) return 0;
    const auto blocks = [block](TokenCount t) { return (t + block - 1) / block; };
    return std::size_t(
        std::ceil(double(std::min(blocks(request), blocks(window) + 1)) * window_blocks));
  }
};

}  // namespace rigcast
