#pragma once
// Hugging Face transformers with dynamic caches: every step writes a new, longer cache.

#include "perfmodel/runtimes/contiguous_cache.hpp"

namespace rigcast {

class Transformers : public ContiguousCache {
 protected:
  TokenCount cells(const MemoryContext& context, TokenCount cached) const override;
  bool grows_by_copy() const override { return true; }
};

}  // namespace rigcast
