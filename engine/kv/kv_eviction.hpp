#pragma once
// How many tokens of a KV cache stay in a GPU's memory where the oldest blocks may leave it.

#include <cstdint>
#include <optional>

#include "core/base/units.hpp"
#include "core/scenario/scenario.hpp"

namespace rigcast::engine {

/// What a scenario says of a cache whose oldest blocks may leave the GPU.
struct KvEviction {
  /// Tokens that stay in the GPU's memory, in whole blocks and at least what a step writes; absent:
  /// as many as fit below the threshold when the cache is first used.
  std::optional<TokenCount> hot_tokens{};
  double threshold = 0.95;          // of the GPU memory that the process may take
  TokenCount min_hot_tokens = 0;    // the newest tokens, which stay even where they do not fit
  TokenCount context = 0;           // tokens of the longest sequence
  TokenCount prompt_end = 0;        // tokens of it that arrive in batches
  TokenCount max_batch_tokens = 1;  // of the longest of those batches
  /// The most blocks that two successive steps occupy, from the block in which the first begins, of
  /// those steps that write to new blocks; 2: all steps are of one token.
  TokenCount two_step_blocks = 2;
};

/// nullopt: the scenario's policy keeps every token in one memory.
std::optional<KvEviction> kv_eviction_of(const Scenario& scenario);

/// Bytes of a cache's blocks: in the GPU's types (hot), and as the host keeps them (cold).
struct KvBlockBytes {
  TokenCount block_tokens = 128;
  int layers = 0;                    // that the GPU keeps
  std::int64_t hot_layer_bytes = 0;  // of one layer's block
  std::int64_t cold_layer_bytes = 0;
  bool converts_type = false;  // cold blocks that return are dequantized into a layer's hot blocks
};

/// The number of blocks to evict, the oldest first, while a step runs that needs `wanted` blocks,
/// so that `hot` stay; `cold` have left the GPU already. Only blocks full of stored tokens can
/// leave: those of the first `cached` tokens.
TokenCount blocks_to_evict(TokenCount wanted, TokenCount cold, TokenCount hot, TokenCount cached,
                           TokenCount block_tokens);

/// The most blocks that the GPU holds at once, of which `hot` may stay. Full blocks leave during a
/// step that writes new ones, and have left when the next such step begins.
TokenCount max_held_blocks(const KvEviction& eviction, TokenCount hot, TokenCount block_tokens);

/// Blocks that may stay on the GPU for the longest context, its batches and the buffers through
/// which cold blocks return to take at most `available_bytes`.
TokenCount hot_blocks(const KvEviction& eviction, const KvBlockBytes& bytes,
                      double available_bytes);

}  // namespace rigcast::engine
