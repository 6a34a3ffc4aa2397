#pragma once
// Runtimes that keep a layer's keys and values in one tensor.

#include "perfmodel/runtimes/runtime_model.hpp"

namespace rigcast {

class ContiguousCache : public RuntimeModel {
 public:
  Bytes compute_buffers(const MemoryContext& context, const Placement& placement,
                        DeviceIndex device, bool works) const override;
  void add_weight_buffers(const MemoryContext& context, const Placement& placement,
                          MemoryPlan& plan) const override;
  void add_cache(const MemoryContext& context, const Placement& placement, TokenCount cached,
                 MemoryPlan& plan) const override;
  TokenCount cold_tokens(const StepContext& context, const MemoryPlan& memory,
                         const Batch& batch) const override;

 protected:
  /// Cells that are allocated when `cached` tokens are held.
  virtual TokenCount cells(const MemoryContext& context, TokenCount cached) const = 0;
  /// A longer cache is a new tensor: while one layer's is written, the shorter one still exists.
  virtual bool grows_by_copy() const { return false; }
};

/// The compute buffer of one device: the largest of the stages that share it.
Bytes compute_buffer(const MemoryContext& context, bool holds_head);

}  // namespace rigcast
