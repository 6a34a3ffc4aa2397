#pragma once
// Blocks that a paged server gives to layers with a window.

#include <cstddef>

#include "core/base/units.hpp"
#include "core/model/model_spec.hpp"
#include "core/runtime/scheduler_policy.hpp"

namespace rigcast {

/// Layers are in groups of equal size, each of which has blocks of one pool: those of layers that
/// keep all tokens of a request, and those of layers that keep the tokens of a window. See vLLM's
/// v1/core/kv_cache_utils.py, _get_kv_cache_groups_uniform_page_size().
struct WindowBlocks {
  TokenCount window = 0;  // 0: all layers keep all tokens
  double per_block = 0;   // of layers with a window, for each of the layers that keep all tokens
  double filled = 1;      // layers in groups, the last of which is filled up, over those that are

  /// Blocks of the layers with a window, of `block` tokens each, that a request with so many tokens
  /// has. A window begins and ends within a block.
  [[nodiscard]] std::size_t of(TokenCount request, TokenCount block) const;
};

/// As the server's rules divide the model's layers. Blocks that are copied to RAM are of all
/// layers.
WindowBlocks window_blocks(const ModelSpec& model, const SchedulerPolicy& policy);

}  // namespace rigcast
