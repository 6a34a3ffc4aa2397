#pragma once
// The rules of a runtime: its memory and its steps, beyond the figures of its profile. Each kind of
// runtime has one implementation; runtime_models.hpp finds the one that a profile names.

#include <algorithm>

#include "core/model/traffic.hpp"
#include "core/scenario/device_memory.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"
#include "perfmodel/cost/operation.hpp"

namespace rigcast {

/// The copies of the two matrices outside the layers.
struct EndMatrices {
  int embeddings = 1;                // copies of the token embedding on `embedding_on`
  DeviceIndex head_on = kHost;       // device that holds the output matrix
  DeviceIndex embedding_on = kHost;  // whose rows are looked up
};

/// Host weights that are copied into another layout when the model is loaded.
struct RepackedWeights {
  Bytes buffer;     // of the copies
  Bytes from_file;  // of what they replace, whose pages are not read again
  Bytes tied;       // of a tied head, of which the embedding is still read
};

/// Attention over cold blocks, split between the CPU and the link to the GPU.
struct ColdSplit {
  double on_cpu = 0;  // bytes
  OpCost cost;        // of attending to them
};

/// Keys and values that a prompt's last step moves from a GPU to the host.
/// Kernels of cuBLAS that a run loads, which occupy host memory.
enum class CublasKernels {
  kNone,
  kFloatResults,  // those whose results are F32
  kAll,           // and those whose results are F16
};

struct KvTransfer {
  DeviceIndex from = kHost;
  Bytes bytes;
};

/// What one sequence has of `resident` tokens or blocks: a batch's sequences have equal shares, in
/// units of `unit`.
inline TokenCount resident_share(TokenCount resident, const Batch& batch, TokenCount unit = 1) {
  const auto sequences = TokenCount(std::max<std::size_t>(1, batch.sequences.size()));
  return resident / sequences / unit * unit;
}

class RuntimeModel {
 public:
  virtual ~RuntimeModel() = default;

  // --- Memory: bytes only.

  /// Bytes of a device's activations and workspaces. `works`: the device has a part of the
  /// placement.
  virtual Bytes compute_buffers(const MemoryContext& context, const Placement& placement,
                                DeviceIndex device, bool works) const = 0;
  /// The part of the host's compute buffers that is never written to, and so occupies no memory.
  virtual Bytes untouched_buffer_bytes(const MemoryContext&, const Placement&) const { return {}; }
  /// Buffers through which host weights are copied to a GPU.
  virtual void add_weight_buffers(const MemoryContext& context, const Placement& placement,
                                  MemoryPlan& plan) const = 0;
  /// Adds the caches of the batch's sequences when the step has ended, and the buffers through
  /// which they move between memories. Everything else is in the plan already. Sets the number of
  /// resident tokens where blocks are evicted.
  virtual void add_cache(const MemoryContext& context, const Placement& placement,
                         const Batch& batch, MemoryPlan& plan) const = 0;
  virtual EndMatrices end_matrices(const StepContext&, const Placement& placement) const {
    return {1, placement.head};
  }
  /// True if the program opens the first GPU even when the placement puts nothing on it.
  virtual bool opens_gpu_always() const { return false; }
  virtual CublasKernels cublas_kernels(const MemoryContext&, const Placement&) const {
    return CublasKernels::kNone;
  }
  /// Graphs of steps of many sequences that a server records before its first request, which occupy
  /// host memory.
  virtual int recorded_graphs(const MemoryContext&, const Placement&) const { return 0; }
  virtual RepackedWeights repacked_weights(const StepContext&, const Placement&) const {
    return {};
  }
  /// True if the host's weights are copied out of the page cache even where the profile maps the
  /// file.
  virtual bool copies_host_weights(const StepContext&) const { return false; }

  // --- Steps.

  /// Tokens whose KV is outside VRAM during the step, in whole blocks, under the policies that
  /// evict KV to host memory.
  virtual TokenCount cold_tokens(const StepContext& context, const MemoryPlan& memory,
                                 const Batch& batch) const = 0;
  /// True if, under KV policy `stream`, new tokens stay in VRAM until their block is full.
  virtual bool streams_in_blocks() const { return false; }
  /// True if a GPU keeps the KV of prompts in its layers while the host decodes alone.
  virtual bool keeps_prompt_cache_on_gpu() const { return false; }
  /// True if states of the host's recurrent layers are copied to the GPU that computes a prompt.
  virtual bool copies_states() const { return false; }
  /// True if the device that has the logits samples the next token, without a copy to the host.
  virtual bool samples_on_gpu() const { return false; }
  /// True if kernels of a step that decodes one token of each of many sequences are launched as one
  /// recorded graph. `cold`: of their cached tokens, those whose blocks are in the host's memory.
  virtual bool records_batches(const StepContext&, const Placement&, TokenCount /*cold*/) const {
    return false;
  }
  /// True if a GPU that computes a prompt leaves out, behind the attention of the model's last
  /// layer, the tokens of which nobody wants logits.
  virtual bool leaves_out_tokens() const { return false; }
  /// The device that computes the logits of a prompt's last token.
  virtual DeviceIndex prompt_head(const Placement& placement) const { return placement.head; }
  /// Time in which the host looks up the embeddings of a prompt's batch.
  virtual Seconds embedding_time(const StepContext&, const Placement&, TokenCount) const {
    return {};
  }
  /// The copy of keys and values, and of recurrent layers' states, after a prompt's last batch.
  virtual KvTransfer prompt_kv_transfer(const StepContext&, const Placement&, const Batch&) const {
    return {};
  }
  /// Latency of the copies of `bytes` of a layer's cold blocks, before the first byte arrives.
  virtual Seconds cold_copy_start(const StepContext&, int, double) const { return {}; }
  /// The CPU's part, under KV policy `combined`, of one token's attention (`flops`) over a layer's
  /// `bytes` of cold keys and values.
  virtual ColdSplit split_cold_blocks(const StepContext&, const Placement&, int, DeviceIndex,
                                      double, double) const {
    return {};
  }
};

}  // namespace rigcast
