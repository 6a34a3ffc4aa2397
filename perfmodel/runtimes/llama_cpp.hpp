#pragma once
// llama.cpp and its forks: the cache is allocated at load, for the context limit.
// Source: ggml-org/llama.cpp, src/llama-kv-cache-iswa.cpp of 2025-11.

#include "perfmodel/runtimes/contiguous_cache.hpp"

namespace rigcast {

class LlamaCpp : public ContiguousCache {
 public:
  /// A layer with a window also has cells for the tokens of one ubatch, which are written before
  /// those that left the window are free.
  TokenCount layer_cells(const MemoryContext& context, int layer, TokenCount cells) const override;

 protected:
  TokenCount cells(const MemoryContext& context, TokenCount cached) const override;
};

}  // namespace rigcast
