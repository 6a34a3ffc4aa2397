#pragma once
// vLLM: the whole model on GPUs, and a cache in blocks that takes what is left of a stated share of
// their memory.

#include "perfmodel/runtimes/contiguous_cache.hpp"

namespace rigcast {

class Vllm : public ContiguousCache {
 public:
  Bytes compute_buffers(const MemoryContext& context, const Placement& placement,
                        DeviceIndex device, bool works) const override;
  void add_cache(const MemoryContext& context, const Placement& placement, const Batch& batch,
                 MemoryPlan& plan) const override;
  bool samples_on_gpu() const override { return true; }
  EndMatrices end_matrices(const StepContext& context, const Placement& placement) const override;

 protected:
  TokenCount cells(const MemoryContext& context, TokenCount cached) const override;
};

}  // namespace rigcast
