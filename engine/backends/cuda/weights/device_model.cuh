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
#include "engine/kernels/cuda/activations/gate_function.cuh"
#include "engine/kernels/cuda/activations/mlp_function.cuh"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"
#include "engine/model/fused_blocks.hpp"
#include "engine/model/model.hpp"
#include "engine/placement/host_placement.hpp"

namespace rigcast::engine::cuda {

/// A layer's weights. Vectors are F32 on the GPU; nullptr: the model has none.
struct DeviceLayer {
  AttentionShape attention;
  LatentShape latent;
  AttentionRule rule;
  bool grouped_heads = false, grouped_gates = false;  // Layer::has_grouped_heads() and so on
  MixerWidths mixer;                                  // of a recurrent mixer
  bool attention_gate = false;     // each head of q's rows has a query, and a gate behind it
  std::vector<FusedBlock> blocks;  // fused blocks that compute the layer, in order
  // Norms of queries and keys are over all heads, instead of over each.
  bool wide_q_norm = false, wide_k_norm = false;
  bool scales_by_position = false;  // queries
  bool layer_norm = false;          // the attention's norm, and those of heads, subtract the mean
  bool parallel_ffn = false;        // the FFN reads the attention's norm
  bool parallel_mixer = false;      // a recurrent mixer does
  MlpFunction mlp_function{};       // of an FFN without a gate
  bool norms_values = false, keys_are_values = false;
  // Of the layer's result, behind the FFN, or behind the token's input of the layer, if it has one.
  float scale = 1, input_scale = 1;
  GateFunction gate_function = GateFunction::kSilu;
  const float *attention_norm = nullptr, *ffn_norm = nullptr;
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *output_bias = nullptr;
  const float *q_norm = nullptr, *k_norm = nullptr;
  const float *attention_post_norm = nullptr, *ffn_post_norm = nullptr;
  const float *sinks = nullptr, *router_bias = nullptr;
  const float *attention_norm_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
  const float* ffn_norm_bias = nullptr;
  const float *router_norm = nullptr, *expert_norm = nullptr, *expert_post_norm = nullptr;
  const float *expert_scale = nullptr, *shared_post_norm = nullptr;
  const float *input_norm = nullptr, *layer_scale = nullptr;
  DeviceMatrix input_gate, input_projection;
  const float *selection_bias = nullptr, *shared_router = nullptr;
  const float *expert_gate_bias = nullptr, *expert_up_bias = nullptr, *expert_down_bias = nullptr;
  const float *mixer_taps = nullptr, *mixer_taps_bias = nullptr, *mixer_time_bias = nullptr;
  const float *mixer_decay = nullptr, *mixer_skip = nullptr, *mixer_norm = nullptr;
  DeviceMatrix mixer_in, mixer_gate, mixer_alpha, mixer_beta, mixer_out;
  DeviceMatrix q, k, v, output;
  DeviceMatrix q_a, q_b, kv_a, k_b, v_b;  // of latent attention
  const float *q_a_norm = nullptr, *kv_a_norm = nullptr;
  DeviceMatrix gate, up, down;  // matrices of a dense FFN
  DeviceMatrix router;          // router of a MoE layer
  DeviceMatrix shared_gate, shared_up, shared_down;
  DeviceMatrixStack expert_gate, expert_up, expert_down;

  // Where experts have no gate, up stands for it: kRelu times up is the square of what is positive.
  const DeviceMatrixStack& first_of_experts() const {
    return expert_gate.first ? expert_gate : expert_up;
  }
  const DeviceMatrix& first_of_shared() const { return shared_gate ? shared_gate : shared_up; }
  /// True if experts are beside a dense FFN, with norms of their own.
  bool experts_beside() const { return router_norm != nullptr; }
};

/// A RopeTable, on the GPU.
struct DeviceRopeTable {
  const double* frequencies = nullptr;  // [pairs]: radians per position
  int pairs = 0;
  float magnitude = 1;
};

struct DeviceModel {
  // Layers that the host keeps have nothing here, or only their vectors.
  std::vector<DeviceLayer> layers;
  // The embedding is in the host's memory, unless it is also the head's matrix.
  DeviceMatrix embedding;
  DeviceMatrix head;
  const float *final_norm = nullptr, *final_norm_bias = nullptr, *head_bias = nullptr;
  // Of layers' inputs: rows of tokens, in the host's memory as the embedding, a matrix and a norm.
  DeviceMatrix input_embedding, input_projection;
  const float* input_norm = nullptr;
  std::vector<DeviceRopeTable> rope;  // of which a layer has number AttentionRule::rope

  VramPiece memory;
  std::unique_ptr<PinnedPages> host_memory;
};

// Called for every piece; false ends the upload; absent: never ends.
using KeepGoing = std::function<bool()>;

struct UploadControl {
  int readers = 0;  // threads; as UploadOptions
  KeepGoing keep_going{};
};

/// Uploads the model's weights that the host does not keep, from memory or from `file`, to which
/// they are bound. Throws ShortOfMemory, CudaFailure, and MachineError if `keep_going` ends it.
DeviceModel upload_model(Vram& vram, const Model& model, const HostPlacement& host,
                         const GgufFile* file, const UploadControl& how);

/// Generates the same weights as engine/synth for these tensors, on the GPU. `model` is bound to
/// them; only the shapes of its matrices are used. Throws as upload_model.
DeviceModel synthesize_model(Vram& vram, const Model& model, const HostPlacement& host,
                             const TensorTable& tensors, std::uint64_t seed,
                             const KeepGoing& keep_going);

}  // namespace rigcast::engine::cuda
