#pragma once
// Activations between the kernels of a step, in GPU memory. They are allocated when a model is
// loaded.

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/batch/experts_batch.cuh"
#include "engine/kernels/cuda/kv/new_tokens.cuh"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"
#include "engine/kernels/cuda/sampling/sample.cuh"
#include "engine/model/model.hpp"

namespace rigcast::engine::cuda {

/// Activations of at most `tokens` tokens, one row per token.
struct ActivationBuffers {
  int tokens = 0;
  std::int32_t* ids = nullptr;
  float* hidden = nullptr;            // [hidden]
  float* normed = nullptr;            // [hidden]
  QuantizedActivations quantized;     // [hidden]: `normed` as integers
  float* projected = nullptr;         // [q | k | v]; then partial results of attention
  std::int64_t projected_floats = 0;  // values at `projected`
  // What first matrices of recurrent layers give, or those of attention with a gate: [q and gate |
  // k | v]; a work buffer of recurrent layers.
  float *mixed = nullptr, *convolved = nullptr;
  RopeAngle* rope_cos_sin = nullptr;  // [pairs], all rows of one table after another
  __half* queries = nullptr;          // [heads][head_dim]
  float* layer_inputs = nullptr;      // [layers][input's width]
  float* own_inputs = nullptr;        // the same, of kOwnInputRows tokens
  VramPiece memory;
};

/// Activations of a single token.
struct DecodeBuffers {
  float* attn_out = nullptr;  // attention output: [heads][head_dim]
  QuantizedActivations attn_out_quantized;
  // [FFN width]; in a MoE layer one row for every expert that is used, then the shared expert's
  float* ffn_hidden = nullptr;
  QuantizedActivations ffn_hidden_quantized;
  ChosenExperts chosen;
  float* shared_weight = nullptr;  // of the expert that all tokens pass
  float* router_logits = nullptr;
  unsigned* arrivals = nullptr;            // of the router's thread blocks
  unsigned* attention_arrivals = nullptr;  // [heads]
  Partials partials;
  float* logits = nullptr;
  ArgmaxState* argmax = nullptr;
  SampleState* sampling = nullptr;
  std::int32_t* position = nullptr;  // position: number of tokens in the cache
  std::int32_t* state = nullptr;     // the number of the sequence's state in recurrent layers
  VramPiece memory;
};

/// FP16 activations of a prompt's batches.
struct PrefillBuffers {
  __half* x = nullptr;              // input of a product
  std::int64_t x_values = 0;        // values at `x`
  __half* ffn_hidden = nullptr;     // [gate | up]
  __half* weights = nullptr;        // dequantized weights of the products that run at once
  float* shared_weights = nullptr;  // of the expert that all tokens pass, by token
  VramPiece memory;
};

/// Activations of products with quantized weights (small batches). For a batch of more than
/// `tokens` the weights are dequantized to FP16, except those of experts, which are multiplied for
/// `routed` tokens at a time.
struct SmallBatchBuffers {
  int tokens = 0, routed = 0;  // 0: not used on this GPU or with these weights
  // Gate's products: [tokens][FFN width], or [routed * used][expert width].
  float* gate_out = nullptr;
  __half* ffn_hidden = nullptr;  // experts' activations: [routed * used][expert width]
  std::int64_t tiled_room = 0;  // F16 values from gate_out to the end of ffn_hidden: tiled, instead
  float* experts = nullptr;     // [routed * used][hidden]
  float* router_logits = nullptr;
  ExpertGroups groups;
  VramPiece memory;
};

struct Buffers {
  /// Allocates buffers for steps of up to `ubatch` tokens, whose attention over a cache is cut into
  /// at most `splits` parts. Buffers of batches are allocated by allocate_for_batches(). Throws
  /// ShortOfMemory.
  Buffers(const Model& model, int ubatch, int splits, Vram& vram, const Stream& stream);

  /// Allocates `batch` and `small_batch`: room for `fp16_weights` dequantized elements, and for the
  /// experts of `routed` tokens at once. Throws ShortOfMemory.
  void allocate_for_batches(const Model& model, std::int64_t fp16_weights, int routed, Vram& vram,
                            const Stream& stream);

  /// The id that argmax or sampling chose for the token behind the one at this position.
  std::int32_t next_id(TokenCount position) const {
    return next_ids.as<std::int32_t>()[position % 2];
  }

  PinnedBuffer next_ids;  // of even positions, and of odd ones
  ActivationBuffers vectors;
  DecodeBuffers token;
  PrefillBuffers batch;
  SmallBatchBuffers small_batch;
};

}  // namespace rigcast::engine::cuda
