#pragma once
// The project's own engine, as `rigcast run` executes it. The forecast follows from what the engine
// is known to do; it calls nothing of the engine.

#include "perfmodel/runtimes/runtime_model.hpp"

namespace rigcast {

class RigcastEngine : public RuntimeModel {
 public:
  Bytes compute_buffers(const MemoryContext& context, const Placement& placement,
                        DeviceIndex device, bool works) const override;
  Bytes untouched_buffer_bytes(const MemoryContext& context,
                               const Placement& placement) const override;
  void add_weight_buffers(const MemoryContext& context, const Placement& placement,
                          MemoryPlan& plan) const override;
  void add_cache(const MemoryContext& context, const Placement& placement, const Batch& batch,
                 MemoryPlan& plan) const override;
  /// An embedding that is also the output matrix may be absent from host memory, because a GPU
  /// takes the rows from its own copy; or present twice, because the host multiplies with one copy
  /// and a GPU takes rows from the other.
  EndMatrices end_matrices(const StepContext& context, const Placement& placement) const override;
  bool opens_gpu_always() const override { return true; }
  CublasKernels cublas_kernels(const MemoryContext& context,
                               const Placement& placement) const override;
  /// For each number of rows that steps are filled up to, and contexts of up to 512, 1,024 and
  /// 2,048 tokens: one that takes the likeliest tokens, and one that draws.
  int recorded_graphs(const MemoryContext& context, const Placement& placement) const override;
  /// The weights that the host keeps beside a GPU are read into memory of the engine's own.
  bool copies_host_weights(const StepContext& context) const override;

  TokenCount cold_tokens(const StepContext& context, const MemoryPlan& memory,
                         const Batch& batch) const override;
  bool streams_in_blocks() const override { return true; }
  bool keeps_prompt_cache_on_gpu() const override { return true; }
  bool copies_states() const override { return true; }
  bool samples_on_gpu() const override { return true; }
  /// Where one GPU has all of the model and its cache.
  bool records_batches(const StepContext& context, const Placement& placement,
                       TokenCount cold) const override;
  bool leaves_out_tokens() const override { return true; }
  DeviceIndex prompt_head(const Placement& placement) const override { return placement.head_on; }
  /// The time in which the host looks up the embeddings of a prompt's batch, where the first layer
  /// of a decode step is the host's.
  Seconds embedding_time(const StepContext& context, const Placement& placement,
                         TokenCount tokens) const override;
  /// A host that decodes alone receives the prompt's KV once the whole prompt is computed.
  KvTransfer prompt_kv_transfer(const StepContext& context, const Placement& placement,
                                const Batch& batch) const override;
  Seconds cold_copy_start(const StepContext& context, int layer, double bytes) const override;
  ColdSplit split_cold_blocks(const StepContext& context, const Placement& placement, int layer,
                              DeviceIndex device, double flops, double bytes) const override;
};

}  // namespace rigcast
