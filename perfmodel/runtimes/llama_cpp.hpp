#pragma once
// llama.cpp and its forks: the cache is allocated at load, for the context limit.

#include "perfmodel/runtimes/contiguous_cache.hpp"

namespace rigcast {

class LlamaCpp : public ContiguousCache {
 protected:
  TokenCount cells(const MemoryContext& context, TokenCount cached) const override;
};

}  // namespace rigcast
