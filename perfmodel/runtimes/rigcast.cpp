#include "perfmodel/runtimes/rigcast.hpp"

#include <algorithm>

#include "core/model/kv_bytes.hpp"
#include "perfmodel/runtimes/prefill_devices.hpp"
#include "perfmodel/runtimes/rigcast_buffers.hpp"
#include "perfmodel/runtimes/rigcast_kv.hpp"

namespace rigcast {

Bytes RigcastEngine::compute_buffers(const MemoryContext& s, const Placement& p, DeviceIndex device,
                                     bool) const {
  return engine_buffers(s, p, device);
}

Bytes RigcastEngine::untouched_buffer_bytes(const MemoryContext& s, const Placement& p) const {
  return engine_untouched_buffer_bytes(s, p);
}

void RigcastEngine::add_weight_buffers(const MemoryContext& s, const Placement& p,
                                       MemoryPlan& plan) const {
  add_engine_weight_buffers(s, p, plan);
}

void RigcastEngine::add_cache(const MemoryContext& s, const Placement& p, const Batch& batch,
                              MemoryPlan& plan) const {
  add_block_cache(s, p, batch, plan);
}

EndMatrices RigcastEngine::end_matrices(const StepContext& s, const Placement& p) const {
  if (s.rig.unified()) return {1, p.head};
  // A host that computes the head for tokens also computes it for prompts.
  EndMatrices ends{1, p.head_on};
  if (!s.tensors.head_is_embedding) return ends;
  const bool looks_up_rows = p.host_decodes() || p.layers.front().decode_on == kHost;
  const int copies_for_gpu = looks_up_rows ? 0 : 1;
  ends.embeddings = p.head_on == kHost ? 1 + copies_for_gpu : 1 - copies_for_gpu;
  return ends;
}

CublasKernels RigcastEngine::cublas_kernels(const MemoryContext& s, const Placement& p) const {
  return engine_cublas_kernels(s, p);
}

// Mirrors padded_rows (engine/backends/cuda/batch/step_rows.cpp) and warm_up_decode (warm_up.cpp).
int RigcastEngine::recorded_graphs(const MemoryContext& s, const Placement& p) const {
  constexpr int kContexts = 3, kChoices = 2;
  if (!s.has_load || !s.scheduler || evicts(s.kv.policy) || !records_batches(s, p, 0)) return 0;
  const int most = std::min(int(s.scheduler->sequences), s.settings.ubatch);
  int shapes = 0;
  for (int rows = 1; rows <= most; ++rows) {
    const int multiple = rows <= 4 ? 1 : rows <= 64 ? 4 : 16;
    if (rows % multiple == 0 || rows == most) ++shapes;
  }
  return shapes * kContexts * kChoices;
}

bool RigcastEngine::copies_host_weights(const StepContext& s) const { return !s.rig.gpus.empty(); }

bool RigcastEngine::records_batches(const StepContext& s, const Placement& p,
                                    TokenCount cold) const {
  const auto is_on_gpu = [&](const LayerPlacement& at) {
    return at.decode_on == p.head_on && at.decode_experts_on == p.head_on &&
           at.decode_cache_on == p.head_on;
  };
  const bool in_vram = s.kv.policy == KvPolicy::kVram || s.kv.policy == KvPolicy::kPaged;
  return in_vram && cold == 0 && p.head_on != kHost && std::ranges::all_of(p.layers, is_on_gpu);
}

TokenCount RigcastEngine::cold_tokens(const StepContext& s, const MemoryPlan& memory,
                                      const Batch& batch) const {
  if (!memory.resident_tokens && s.kv.policy != KvPolicy::kStream) return 0;
  const TokenCount hot =
      resident_share(memory.resident_tokens.value_or(0), batch, s.kv.block_tokens);
  TokenCount cold = 0;
  for (const Sequence& sequence : batch.sequences)
    cold += memory.blocks_stay ? std::max<TokenCount>(0, sequence.cached - hot)
                               : cold_block_tokens(s, hot, sequence);
  return cold;
}

Seconds RigcastEngine::embedding_time(const StepContext& s, const Placement& p,
                                      TokenCount tokens) const {
  const LayerPlacement& first = p.layers.front();
  if (first.decode_on != kHost || first.prefill_on == kHost) return {};
  // Each element is dequantized and written to memory that the GPU reads.
  return 2.0 * s.runtime.cpu.element.value * double(tokens * s.model.hidden);
}

namespace {

// Of a prompt: its longest.
Batch first_ubatch(const StepContext& s, Batch batch) {
  for (Sequence& sequence : batch.sequences) {
    sequence.cached = sequence.depth;
    sequence.tokens = std::min<TokenCount>(sequence.prompt, s.settings.ubatch);
  }
  return batch;
}

}  // namespace

KvTransfer RigcastEngine::prompt_kv_transfer(const StepContext& s, const Placement& p,
                                             const Batch& batch) const {
  KvTransfer transfer;
  if (s.rig.unified()) return transfer;
  // States come back when the host goes on: behind the prompt, or before a last, short ubatch.
  const PrefillDevices devices(s, p, first_ubatch(s, batch));
  double prompt = 0;
  for (const Sequence& sequence : batch.sequences) prompt += double(sequence.prompt);
  for (int l = 0; l < s.model.layers; ++l) {
    const bool offloaded = p.offloadable(l) && s.model.has_recurrent_mixer(l);
    const DeviceIndex gpu = p.host_decodes() ? p.layers[std::size_t(l)].weights
                            : offloaded      ? devices.of(l)
                                             : kHost;
    if (gpu == kHost) continue;
    transfer.from = gpu;
    transfer.bytes += Bytes{state_bytes(s.model, l) * double(batch.sequences.size())};
    // Those of other layers go to the host's cache as they are computed.
    if (p.host_decodes())
      transfer.bytes += Bytes{kv_bytes_per_token(s.model, l, s.kv.types) * prompt};
  }
  return transfer;
}

Seconds RigcastEngine::cold_copy_start(const StepContext& s, int layer, double bytes) const {
  return cold_block_copy_start(s, layer, bytes);
}

ColdSplit RigcastEngine::split_cold_blocks(const StepContext& s, const Placement& p, int layer,
                                           DeviceIndex device, double flops, double bytes) const {
  return split_blocks(s, p, layer, device, flops, bytes);
}

}  // namespace rigcast
