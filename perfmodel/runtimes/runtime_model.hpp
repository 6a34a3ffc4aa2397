#pragma once
// What a runtime does with memory and with a step, beyond the figures of its profile. One
// implementation for each kind of runtime; runtime_models.hpp finds the one of a profile.

#include "core/model/traffic.hpp"
#include "core/scenario/device_memory.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/cost/operation.hpp"
#include "perfmodel/step_context.hpp"

namespace rigcast {

/// Copies of the two matrices outside the layers.
struct EndMatrices {
  int embeddings = 1;           // copies of the token embedding in host memory
  DeviceIndex head_on = kHost;  // device that holds the output matrix
};

/// Attention over cold blocks, of which the CPU takes a part while the link brings the rest.
struct ColdSplit {
  double on_cpu = 0;  // bytes
  OpCost cost;        // of attending to them
};

/// Keys and values that a prompt's last step moves from a GPU to the host.
struct KvHandover {
  DeviceIndex from = kHost;
  Bytes bytes;
};

class RuntimeModel {
 public:
  virtual ~RuntimeModel() = default;

  // --- Memory: bytes only.

  /// What a device has for vectors and workspaces. `works`: something of the placement is there.
  virtual Bytes compute_buffers(const MemoryContext& context, const Placement& placement,
                                DeviceIndex device, bool works) const = 0;
  /// The part of the host's compute buffers that is never written to, and takes no memory.
  virtual Bytes untouched_buffers(const MemoryContext&, const Placement&) const { return {}; }
  /// Buffers that weights of the host pass through on their way to a GPU.
  virtual void add_weight_buffers(const MemoryContext& context, const Placement& placement,
                                  MemoryPlan& plan) const = 0;
  /// The cache with `cached` tokens in the context, and what it needs on its way between memories.
  /// Everything else is in the plan; where blocks leave a GPU, sets how many tokens stay.
  virtual void add_cache(const MemoryContext& context, const Placement& placement,
                         TokenCount cached, MemoryPlan& plan) const = 0;
  virtual EndMatrices end_matrices(const StepContext&, const Placement& placement) const {
    return {1, placement.head};
  }
  /// The program opens the first GPU even where the placement puts nothing on it.
  virtual bool opens_gpu_always() const { return false; }
  /// Kernels of cuBLAS are loaded, and take host memory.
  virtual bool loads_cublas(const MemoryContext&, const Placement&) const { return false; }
  /// The host's weights are copied out of the page cache even where the profile maps the file.
  virtual bool copies_host_weights(const StepContext&) const { return false; }

  // --- Steps.

  /// Tokens outside VRAM while the batch goes through, under the policies that move KV to host
  /// memory as it grows, in whole blocks.
  virtual TokenCount cold_tokens(const StepContext& context, const MemoryPlan& memory,
                                 const Batch& batch) const = 0;
  /// Under KV policy `stream`, new tokens stay in VRAM until their block is full.
  virtual bool streams_in_blocks() const { return false; }
  /// Where the host decodes alone, a GPU keeps the cache that prompts have given its layers.
  virtual bool keeps_prompt_cache_on_gpu() const { return false; }
  /// The next token is chosen where its logits are: they are not copied to the host.
  virtual bool samples_on_gpu() const { return false; }
  /// Where the logits of a prompt's last token are computed.
  virtual DeviceIndex prompt_head(const Placement& placement) const { return placement.head; }
  /// Time of the host before a prompt's batch, for looking up its embeddings.
  virtual Seconds embedding_time(const StepContext&, const Placement&, TokenCount) const {
    return {};
  }
  /// What follows a prompt's last batch.
  virtual KvHandover prompt_handover(const StepContext&, const Placement&, const Batch&) const {
    return {};
  }
  /// Time that copies of `bytes` of a layer's cold blocks take before they carry anything.
  virtual Seconds cold_copy_start(const StepContext&, int, double) const { return {}; }
  /// Under KV policy `combined`, of a layer's `bytes` of cold keys and values, over which one
  /// token's attention is `flops`: what the CPU attends to.
  virtual ColdSplit split_cold_blocks(const StepContext&, const Placement&, int, DeviceIndex,
                                      double, double) const {
    return {};
  }
};

}  // namespace rigcast
