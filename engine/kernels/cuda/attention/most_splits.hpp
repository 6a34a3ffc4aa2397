#pragma once

#include <algorithm>

namespace rigcast::engine::cuda {

/// The splits of the longest context in one token's attention: as many as run at once. Blocks that
/// convert rows to F16 are smaller, and need neighbours on the multiprocessor more; of heads wider
/// than 128, tiles of F16 take all the shared memory of one. Of heads wider than 256 a block sums
/// up half.
constexpr int most_attention_splits(int kv_heads, int head_dim, int multiprocessors, bool fp16) {
  const int blocks = (fp16 ? 2 : 3) - (head_dim > 128 ? 1 : 0);
  return std::max(1, blocks * multiprocessors / (kv_heads * (head_dim > 256 ? 2 : 1)));
}

/// The same of latent attention, whose thread blocks have 16 heads each.
constexpr int most_latent_splits(int heads, int multiprocessors) {
  const int groups = (heads + 15) / 16;
  return std::max(1, 2 * multiprocessors / groups);
}

}  // namespace rigcast::engine::cuda
