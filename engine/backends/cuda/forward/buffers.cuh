#pragma once
// Vectors between the kernels of a step, on the GPU; all are taken when a model is loaded.

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/kernels/cuda/attention/decode_attention.cuh"
#include "engine/kernels/cuda/batch/experts_batch.cuh"
#include "engine/kernels/cuda/kv/new_tokens.cuh"
#include "engine/kernels/cuda/matvec/matvec.cuh"
#include "engine/kernels/cuda/sampling/sample.cuh"
#include "engine/model/model.hpp"

namespace rigcast::engine::cuda {

/// Vectors of `tokens` tokens at most, one row a token.
struct Vectors {
  int tokens = 0;
  std::int32_t* ids = nullptr;
  float* hidden = nullptr;     // [hidden]
  float* normed = nullptr;     // [hidden]
  Rounded rounded;             // [hidden]: `normed` as integers
  float* projected = nullptr;  // [q | k | v]
  Turn* turns = nullptr;       // [rope_dims / 2]
  __half* queries = nullptr;   // [heads][head_dim]
  VramPiece memory;
};

/// Of one token alone.
struct TokenVectors {
  float* mixed = nullptr;  // what attention gives
  Rounded mixed_rounded;
  float* middle = nullptr;  // of the FFN; of a MoE layer one for every expert that is used
  Rounded middle_rounded;
  ChosenExperts chosen;
  float* router_logits = nullptr;
  unsigned* arrivals = nullptr;
  Partials partials;
  float* logits = nullptr;
  ArgmaxState* argmax = nullptr;
  SampleState* sampling = nullptr;
  std::int32_t* position = nullptr;  // tokens in the cache
  VramPiece memory;
};

/// Of a prompt's batches. Halves.
struct BatchVectors {
  __half* x = nullptr;        // what a product takes
  __half* middle = nullptr;   // [gate | up]
  __half* weights = nullptr;  // of the products that run at once, where they lie otherwise
  VramPiece memory;
};

/// Of products with weights as they lie. A batch of more than `tokens` has them written out as
/// halves, but for its experts, which take `routed` tokens at a time.
struct ShortVectors {
  int tokens = 0, routed = 0;  // 0: the GPU or the weights do without
  float* between = nullptr;    // gate's products: [tokens][middle], or of `routed` a row a choice
  __half* middle = nullptr;    // of experts: a row a choice
  float* experts = nullptr;    // [routed * used][hidden]
  float* router_logits = nullptr;
  ExpertGroups groups;
  VramPiece memory;
};

struct Buffers {
  /// Vectors of steps of up to `ubatch` tokens, whose attention over a cache is cut into `splits`
  /// parts at most. Those of batches alone are taken by take_for_batches(). Throws ShortOfMemory.
  Buffers(const Model& model, int ubatch, int splits, Vram& vram, const Stream& stream);

  /// Takes `batch` and `shorts`. Of a batch, `fp16_weights` elements are written out at once, and
  /// the experts of `routed` tokens are multiplied at once. Throws ShortOfMemory.
  void take_for_batches(const Model& model, std::int64_t fp16_weights, int routed, Vram& vram,
                        const Stream& stream);

  PinnedBuffer next_id;  // what argmax or sample chose
  Vectors vectors;
  TokenVectors token;
  BatchVectors batch;
  ShortVectors shorts;
};

}  // namespace rigcast::engine::cuda
