#pragma once
// What is given to kernels of causal attention.

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/attention/soft_cap.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"

namespace rigcast::engine::cuda {

struct PrefillAttention {
  const __half* queries = nullptr;  // [tokens][heads][head_dim], as place() writes them
  int tokens = 0;
  int heads = 0;   // a multiple of the cache's KV heads
  int window = 0;  // as of DecodeAttention
  /// Shared memory that a block may use; 0: as much as the GPU offers. A smaller value emulates a
  /// GPU that offers less: 65,536 on Turing.
  int shared_bytes = 0;
  SoftCap cap{};
  Sinks sinks = nullptr;
  /// Memory for partial results: `partial_floats` values, aligned to 16 bytes. With it, contexts
  /// are cut into splits where the tokens alone are too few to occupy the GPU.
  float* partials = nullptr;
  std::int64_t partial_floats = 0;
  /// The last token's position, or one near it: the number of splits depends on it, and on Hopper
  /// whether its own kernel is worth while. 0: not known.
  int context = 0;
};

}  // namespace rigcast::engine::cuda
