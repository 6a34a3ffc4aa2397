#pragma once
// A model's weights where a GPU reads them.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/model/tensor_table.hpp"
#include "engine/cuda/memory/pinned_pages.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/gguf/file.hpp"
#include "engine/kernels/cuda/matvec/matvec.cuh"
#include "engine/model/fused_blocks.hpp"
#include "engine/model/model.hpp"
#include "engine/placement/host_parts.hpp"

namespace rigcast::engine::cuda {

/// Vectors are F32 on the GPU; nullptr: the model has none.
struct DeviceLayer {
  AttentionShape attention;
  std::vector<FusedBlock> blocks;  // what computes it, in order
  const float *attention_norm = nullptr, *ffn_norm = nullptr;
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *output_bias = nullptr;
  const float *q_norm = nullptr, *k_norm = nullptr;
  Matrix q, k, v, output;
  Matrix gate, up, down;  // a dense FFN
  Matrix router;          // a MoE layer
  MatrixStack expert_gate, expert_up, expert_down;
};

struct DeviceModel {
  std::vector<DeviceLayer> layers;  // of one that the host keeps nothing, or its vectors alone
  Matrix embedding;                 // in the host's memory, unless the head is the same matrix
  Matrix head;
  const float* final_norm = nullptr;
  const double* frequencies = nullptr;  // [rope_dims / 2]: radians a position

  VramPiece memory;
  std::unique_ptr<PinnedPages> host_memory;
};

using GoOn = std::function<bool()>;  // asked for every piece; absent: yes

struct UploadHow {
  int readers = 0;  // threads; as UploadOptions
  GoOn go_on{};
};

/// Brings the model's weights that the host does not keep to the GPU from where they lie in memory,
/// or from `file`, which they were bound from. Throws ShortOfMemory, CudaFailure, and MachineError
/// where `go_on` ends it.
DeviceModel upload_model(Vram& vram, const Model& model, const HostParts& host,
                         const GgufFile* file, const UploadHow& how);

/// The weights that engine/synth makes of these tensors, made on the GPU. `model` was bound to
/// them; of its matrices the shapes alone are looked at. Throws as upload_model.
DeviceModel synthesize_model(Vram& vram, const Model& model, const HostParts& host,
                             const TensorTable& tensors, std::uint64_t seed, const GoOn& go_on);

}  // namespace rigcast::engine::cuda
