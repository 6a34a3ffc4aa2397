#include "perfmodel/runtimes/llama_cpp.hpp"

#include <algorithm>

#include "perfmodel/runtimes/llama_cpp_buffers.hpp"

namespace rigcast {
namespace {

bool is_expert(const Tensor& t) {
  return t.role == TensorRole::kExpertGate || t.role == TensorRole::kExpertUp ||
         t.role == TensorRole::kExpertDown;
}

// The layout of the CPU for a matrix; nullptr: it is multiplied as it is in the file.
const RuntimeProfile::Repacking* repacking_of(const StepContext& s, const Tensor& t) {
  if (t.dimensions < 2 || t.role == TensorRole::kBias || t.role == TensorRole::kNorm)
    return nullptr;
  const auto applies = [&](const RuntimeProfile::Repacking& r) {
    return r.format == t.format && std::ranges::find(r.simd, s.rig.cpu.simd) != r.simd.end() &&
           std::int64_t(t.shape[1]) % r.rows == 0 && (r.experts || !is_expert(t)) &&
           s.settings.build_year.value_or(r.since.value) >= r.since.value;
  };
  const auto found = std::ranges::find_if(s.runtime.repackings, applies);
  return found == s.runtime.repackings.end() ? nullptr : &*found;
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
  return llama_cpp_gpu_buffer(s, p, device, works, allocated);
}

RepackedWeights LlamaCpp::repacked_weights(const StepContext& s, const Placement&) const {
  RepackedWeights out;
  if (!s.rig.gpus.empty()) return out;
  for (const Tensor& t : s.tensors.tensors) {
    const bool tied_head = t.role == TensorRole::kTokenEmbedding && s.tensors.head_is_embedding;
    if (t.layer < 0 && t.role != TensorRole::kOutput && !tied_head) continue;
    const RuntimeProfile::Repacking* layout = repacking_of(s, t);
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
