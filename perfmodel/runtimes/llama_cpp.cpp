#include "perfmodel/runtimes/llama_cpp.hpp"

#include <algorithm>

#include "perfmodel/context/cpu_layout.hpp"
#include "perfmodel/runtimes/llama_cpp_buffers.hpp"

namespace rigcast {
namespace {

bool is_expert(const Tensor& t) {
  return t.role == TensorRole::kExpertGate || t.role == TensorRole::kExpertUp ||
         t.role == TensorRole::kExpertDown;
}

const RuntimeProfile::Repacking* layout_of(const StepContext& s, const Tensor& t) {
  if (t.dimensions < 2 || t.role == TensorRole::kBias || t.role == TensorRole::kNorm)
    return nullptr;
  return cpu_layout(s, {t.format, is_expert(t), std::int64_t(t.shape[1])});
}

}  // namespace

TokenCount LlamaCpp::cells(const MemoryContext& s, TokenCount) const {
  return read_cells(s.context, s.runtime.memory.kv_padding);
}

TokenCount LlamaCpp::layer_cells(const MemoryContext& s, int layer, TokenCount cells) const {
  if (!s.model.has_kv(layer) || s.model.sees_all_tokens(layer))
    return s.model.attended_tokens(layer, cells);
  const TokenCount with_batch = s.model.window->tokens + s.settings.ubatch;
  return std::min(cells, read_cells(std::min(s.context, with_batch), s.runtime.memory.kv_padding));
}

Bytes LlamaCpp::compute_buffers(const MemoryContext& s, const Placement& p, DeviceIndex device,
                                bool works) const {
  const auto allocated = [&](int layer) { return layer_cells(s, layer, cells(s, 0)); };
  if (device == kHost) return llama_cpp_host_buffers(s, p, works, allocated);
  // GPUs that share every layer have all activations each.
  const auto& shared = s.rig.gpus[std::size_t(device)].shared;
  return llama_cpp_gpu_buffer(s, p, device, works, allocated) * double(shared ? shared->gpus : 1);
}

RepackedWeights LlamaCpp::repacked_weights(const StepContext& s, const Placement&) const {
  RepackedWeights out;
  for (const Tensor& t : s.tensors.tensors) {
    const bool tied_head = t.role == TensorRole::kTokenEmbedding && s.tensors.head_is_embedding;
    if (t.layer < 0 && t.role != TensorRole::kOutput && !tied_head) continue;
    const RuntimeProfile::Repacking* layout = layout_of(s, t);
    if (!layout) continue;
    const double scale =
        layout->block_bytes > 0 ? layout->block_bytes / double(info(t.format).block_bytes) : 1.0;
    out.buffer += Bytes{double(t.bytes) * scale};
    (tied_head ? out.tied : out.from_file) += Bytes{double(t.bytes)};
  }
  return out;
}

// Copies of the host's weights are in the compute buffer.
void LlamaCpp::add_weight_buffers(const MemoryContext& s, const Placement& p,
                                  MemoryPlan& plan) const {
  if (!copies_in_compute_buffer(s)) ContiguousCache::add_weight_buffers(s, p, plan);
}

}  // namespace rigcast
