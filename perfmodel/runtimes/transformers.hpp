#pragma once
// Hugging Face transformers: PyTorch in eager mode, and a dynamic cache, which every step writes
// anew, one token longer.

#include "perfmodel/runtimes/contiguous_cache.hpp"

namespace rigcast {

class Transformers : public ContiguousCache {
 public:
  Bytes compute_buffers(const MemoryContext& context, const Placement& placement,
                        DeviceIndex device, bool works) const override;
  void add_cache(const MemoryContext& context, const Placement& placement, const Batch& batch,
                 MemoryPlan& plan) const override;
  bool keeps_prompt_cache_on_gpu() const override { return true; }
  EndMatrices end_matrices(const StepContext& context, const Placement& placement) const override;

 protected:
  TokenCount cells(const MemoryContext& context, TokenCount cached) const override;
};

/// The most bytes of activations at once while one pass computes a prompt of `rows` tokens.
/// `has_head`: the pass computes logits too.
Bytes eager_activations(const MemoryContext& context, TokenCount rows, bool has_head);

}  // namespace rigcast
