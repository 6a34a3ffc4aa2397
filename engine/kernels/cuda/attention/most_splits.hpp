#pragma once

#include <algorithm>

namespace rigcast::engine::cuda {

/// The splits of the longest context in one token's attention: as many as run at once. Blocks that
/// convert rows to F16 are smaller, and need neighbours on the multiprocessor more.
constexpr int most_attention_splits(int kv_heads, int multiprocessors, bool fp16) {
  return std::max(1, (fp16 ? 2 : 3) * multiprocessors / kv_heads);
}

}  // namespace rigcast::engine::cuda
