#pragma once
// llama.cpp and its forks: the cache is allocated at load, for the context limit.
// Source: ggml-org/llama.cpp, src/llama-kv-cache-iswa.cpp of 2025-11.

#include "perfmodel/runtimes/contiguous_cache.hpp"

namespace rigcast {

class LlamaCpp : public ContiguousCache {
 public:
  Bytes compute_buffers(const MemoryContext& context, const Placement& placement,
                        DeviceIndex device, bool works) const override;
  void add_weight_buffers(const MemoryContext& context, const Placement& placement,
                          MemoryPlan& plan) const override;
  /// Weights of the CPU alone: beside a GPU with pinned host buffers, as CUDA has, those come first
  /// in the list of a layer's buffer types (make_cpu_buft_list, src/llama-model.cpp).
  RepackedWeights repacked_weights(const StepContext& context,
                                   const Placement& placement) const override;
  /// A layer with a window also has cells for the tokens of one ubatch, which are written before
  /// those that left the window are free.
  TokenCount layer_cells(const MemoryContext& context, int layer, TokenCount cells) const override;

 protected:
  TokenCount cells(const MemoryContext& context, TokenCount cached) const override;
};

}  // namespace rigcast
