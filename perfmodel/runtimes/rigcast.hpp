#pragma once
// The project's own engine, as `rigcast run` executes it. Forecast here from what the engine is
// known to do; nothing of the engine is called.

#include "perfmodel/runtimes/runtime_model.hpp"

namespace rigcast {

class RigcastEngine : public RuntimeModel {
 public:
  Bytes compute_buffers(const MemoryContext& context, const Placement& placement,
                        DeviceIndex device, bool works) const override;
  Bytes untouched_buffers(const MemoryContext& context, const Placement& placement) const override;
  void add_weight_buffers(const MemoryContext& context, const Placement& placement,
                          MemoryPlan& plan) const override;
  void add_cache(const MemoryContext& context, const Placement& placement, TokenCount cached,
                 MemoryPlan& plan) const override;
  /// An embedding that is the head's matrix, too, may be in host memory not at all, for a GPU takes
  /// rows from its own, or twice: as the host multiplies with it, and as a GPU takes rows from it.
  EndMatrices end_matrices(const StepContext& context, const Placement& placement) const override;
  bool opens_gpu_always() const override { return true; }
  bool loads_cublas(const MemoryContext& context, const Placement& placement) const override;
  /// What it keeps of a file beside a GPU it has read into memory of its own.
  bool copies_host_weights(const StepContext& context) const override;

  TokenCount cold_tokens(const StepContext& context, const MemoryPlan& memory,
                         const Batch& batch) const override;
  bool streams_in_blocks() const override { return true; }
  bool keeps_prompt_cache_on_gpu() const override { return true; }
  bool samples_on_gpu() const override { return true; }
  DeviceIndex prompt_head(const Placement& placement) const override { return placement.head_on; }
  /// The host looks up the rows that a GPU begins a prompt with, where the first layer of a token
  /// is the host's.
  Seconds embedding_time(const StepContext& context, const Placement& placement,
                         TokenCount tokens) const override;
  /// A host that decodes alone is given the prompt's keys and values once all of it is computed.
  KvHandover prompt_handover(const StepContext& context, const Placement& placement,
                             const Batch& batch) const override;
  Seconds cold_copy_start(const StepContext& context, int layer, double bytes) const override;
  ColdSplit split_cold_blocks(const StepContext& context, const Placement& placement, int layer,
                              DeviceIndex device, double flops, double bytes) const override;
};

}  // namespace rigcast
