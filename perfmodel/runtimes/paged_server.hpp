#pragma once
// vLLM, SGLang and TensorRT-LLM: the whole model on GPUs, and a cache in a pool of blocks that
// takes a share of their memory, by the rule that the profile names.

#include "perfmodel/runtimes/contiguous_cache.hpp"

namespace rigcast {

class PagedServer : public ContiguousCache {
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
