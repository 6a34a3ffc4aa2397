#pragma once
// Runtimes that keep a layer's keys and values in one tensor.

#include <algorithm>

#include "perfmodel/runtimes/runtime_model.hpp"

namespace rigcast {

class ContiguousCache : public RuntimeModel {
 public:
  Bytes compute_buffers(const MemoryContext& context, const Placement& placement,
                        DeviceIndex device, bool works) const override;
  void add_weight_buffers(const MemoryContext& context, const Placement& placement,
                          MemoryPlan& plan) const override;
  void add_cache(const MemoryContext& context, const Placement& placement, const Batch& batch,
                 MemoryPlan& plan) const override;
  TokenCount cold_tokens(const StepContext& context, const MemoryPlan& memory,
                         const Batch& batch) const override;

  /// Cells of one layer, where a sequence has `cells`: a window bounds them.
  virtual TokenCount layer_cells(const MemoryContext& context, int layer, TokenCount cells) const {
    return context.model.attended_tokens(layer, cells);
  }

 protected:
  /// Cells that are allocated for a sequence of `cached` tokens.
  virtual TokenCount cells(const MemoryContext& context, TokenCount cached) const = 0;
};

/// Bytes of a batch's activations: the hidden state, and what each stage of a layer, and the head,
/// have beside it. A graph allocator reuses one buffer for all stages.
struct ComputeStages {
  Bytes hidden, attention, ffn, logits;

  Bytes buffer() const { return hidden + std::max({attention, ffn, logits}); }
};

/// Those of one device that computes `rows` tokens at once.
ComputeStages compute_stages(const MemoryContext& context, TokenCount rows, bool holds_head);
/// Tokens of the largest batch: buffers are allocated for it.
TokenCount largest_batch(const MemoryContext& context);
/// The compute buffer of one device for the largest batch.
Bytes compute_buffer(const MemoryContext& context, bool holds_head);

}  // namespace rigcast
