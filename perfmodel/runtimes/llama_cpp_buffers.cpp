#include "perfmodel/runtimes/llama_cpp_buffers.hpp"

#include <algorithm>

#include "core/model/kv_bytes.hpp"
#include "perfmodel/runtimes/contiguous_cache.hpp"

namespace rigcast {
namespace {

constexpr double kIndexBytes = 4;  // of tokens, positions and outputs
constexpr double kCellBytes = 8;   // the place of a key or value in the cache

// True if products of the largest batch with host weights are computed on a GPU.
bool offloads(const MemoryContext& s) {
  return copies_in_compute_buffer(s) && largest_batch(s) >= s.runtime.prefill.stream_min_batch;
}

bool is_of_attention(TensorRole role) {
  switch (role) {
    case TensorRole::kAttentionQ:
    case TensorRole::kAttentionK:
    case TensorRole::kAttentionV:
    case TensorRole::kAttentionQKV:
    case TensorRole::kAttentionOutput:
    case TensorRole::kRecurrent: return true;
    default: return false;
  }
}

bool is_expert(TensorRole role) {
  return role == TensorRole::kExpertGate || role == TensorRole::kExpertUp ||
         role == TensorRole::kExpertDown;
}

bool is_ffn(TensorRole role) {
  return role == TensorRole::kFfnGate || role == TensorRole::kFfnUp || role == TensorRole::kFfnDown;
}

// The matrix that is multiplied for logits.
Bytes output_matrix(const StepContext& s) {
  const TensorRole role =
      s.tensors.head_is_embedding ? TensorRole::kTokenEmbedding : TensorRole::kOutput;
  const auto found = std::ranges::find(s.tensors.tensors, role, &Tensor::role);
  return Bytes{found == s.tensors.tensors.end() ? 0.0 : double(found->bytes)};
}

// The largest matrices of the host that the GPU multiplies with, of each stage.
ComputeStages copied_weights(const MemoryContext& s, const Placement& p, DeviceIndex gpu) {
  ComputeStages out;
  for (const Tensor& t : s.tensors.tensors) {
    if (t.layer < 0 || t.layer >= s.model.layers || t.dimensions < 2) continue;
    const LayerPlacement& at = p.layers[std::size_t(t.layer)];
    const bool apart = s.model.is_moe_layer(t.layer) ? is_expert(t.role) : is_ffn(t.role);
    if (at.prefill_on != gpu || (apart ? at.experts : at.weights) != kHost) continue;
    Bytes& stage = is_of_attention(t.role) ? out.attention : out.ffn;
    stage = std::max(stage, Bytes{double(t.bytes)});
  }
  // The first GPU that can compute an operation is asked first.
  if (p.head == kHost && gpu == 0) out.logits = output_matrix(s);
  return out;
}

// Attention follows the product after it, to the GPU, where keys and values are in RAM: they are
// copied as they are allocated. With KV policy `ram` and no flash attention it stays on the CPU.
Bytes copied_cache(const MemoryContext& s, const Placement& p, DeviceIndex gpu,
                   const CellsOfLayer& cells) {
  if (cpu_attends(s)) return {};
  Bytes largest;
  for (int l = 0; l < s.model.layers; ++l) {
    const LayerPlacement& at = p.layers[std::size_t(l)];
    if (at.prefill_on != gpu || at.kv != kHost) continue;
    largest =
        std::max(largest, Bytes{kv_bytes_per_token(s.model, l, s.kv.types) * double(cells(l))});
  }
  return largest;
}

// True if the host computes a layer's part of the largest batch.
bool host_computes(const MemoryContext& s, const Placement& p) {
  return std::ranges::any_of(p.layers, [&](const LayerPlacement& l) {
    const bool has_weights = l.weights == kHost || l.experts == kHost;
    return l.prefill_on == kHost || (has_weights && !offloads(s)) ||
           (l.kv == kHost && cpu_attends(s));
  });
}

}  // namespace

bool copies_in_compute_buffer(const MemoryContext& s) {
  const bool prefetches = s.runtime.prefill.overlap || s.runtime.decode.prefetch_depth > 0;
  return s.runtime.prefill.streams && s.settings.op_offload && !s.rig.gpus.empty() &&
         !s.rig.unified() && !prefetches;
}

Bytes llama_cpp_gpu_buffer(const MemoryContext& s, const Placement& p, DeviceIndex gpu, bool works,
                           const CellsOfLayer& cells) {
  const bool copies_head = offloads(s) && p.head == kHost && gpu == 0;
  const bool has_logits = p.head == gpu || copies_head;
  if (!works && !has_logits) return {};
  ComputeStages stages = compute_stages(s, largest_batch(s), has_logits);
  if (!offloads(s)) return stages.buffer();
  const ComputeStages copied = copied_weights(s, p, gpu);
  stages.attention += std::max(copied.attention, copied_cache(s, p, gpu, cells));
  stages.ffn += copied.ffn;
  stages.logits += copied.logits;
  return stages.buffer();
}

Bytes llama_cpp_inputs(const MemoryContext& s, TokenCount batch, const CellsOfLayer& cells) {
  const double rows = double(batch);
  // Layers with a window have a cache of their own, with other cells.
  double all = 0, windowed = 0, row = 0;
  for (int l = 0; l < s.model.layers; ++l) {
    if (!s.model.has_kv(l)) continue;
    double& mask = s.model.sees_all_tokens(l) ? all : windowed;
    mask = std::max(mask, double(cells(l)));
    row = std::max(row, double(s.model.kv_heads_of(l)) * double(s.model.head_dim_of(l)));
  }
  const int caches = (all > 0 ? 1 : 0) + (windowed > 0 ? 1 : 0);
  const double value_cells = s.settings.flash_attention || s.model.mla ? 1 : row;
  const double indices = 3 * kIndexBytes + caches * kCellBytes * (1 + value_cells);
  return hidden_bytes(s.model) * rows + Bytes{rows * (indices + 4 * (all + windowed))};
}

Bytes llama_cpp_host_buffers(const MemoryContext& s, const Placement& p, bool works,
                             const CellsOfLayer& cells) {
  const Bytes output = logits_bytes(s.model);
  const TokenCount rows = largest_batch(s);
  if (s.rig.gpus.empty()) return compute_buffer(s, true) + output;
  Bytes computed;
  if (works && host_computes(s, p)) computed = compute_stages(s, rows, false).buffer();
  if (p.head == kHost && !offloads(s))
    computed = std::max(computed, compute_stages(s, rows, true).buffer());
  return std::max(computed, llama_cpp_inputs(s, rows, cells)) + output;
}

}  // namespace rigcast
