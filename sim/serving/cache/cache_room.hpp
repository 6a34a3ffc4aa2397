#pragma once
// What a server's KV cache has room for.

#include <cstddef>

#include "core/runtime/window_blocks.hpp"

namespace rigcast {

struct CacheRoom {
  // NOLINTNEXTLINE(google-explicit-constructor): most models have no windows
  CacheRoom(TokenCount all) : tokens(all) {}
  CacheRoom(TokenCount all, const WindowBlocks& of_windows) : tokens(all), windows(of_windows) {}

  TokenCount tokens;  // of the layers that keep all tokens of a request, if they had it alone
  WindowBlocks windows;
  /// Of what requests have beside their blocks (checkpoints.hpp); 0: blocks alone are of use.
  std::size_t checkpoints = 0;
};

}  // namespace rigcast
