#pragma once
// The paged KV cache as kernels see it: blocks of tokens, each in its own memory.

#include <cstddef>
#include <cstdint>

#include "core/model/quant_format.hpp"

#ifdef __CUDACC__
#define RIGCAST_HOST_DEVICE __host__ __device__
#else
#define RIGCAST_HOST_DEVICE
#endif

namespace rigcast::engine::cuda {

/// The cache of one sequence, or of several, which share a memory of blocks: sequence s has the
/// list of blocks at blocks + s * list_stride. Token t of a sequence is in its block t /
/// block_tokens. A block holds [layer][kv head][K|V][token][head_dim], as the CPU's cache does
/// (engine/kv). Rows are in the cache's types: F16, Q8_0 or Q4_0.
struct Cache {
  std::byte* const* blocks = nullptr;  // [block]; lists and blocks are on the GPU
  int list_stride = 0;
  int block_tokens = 128;
  int kv_heads = 0;
  int head_dim = 0;
  QuantFormat k_type = QuantFormat::kF16, v_type = QuantFormat::kF16;
  int k_row = 0, v_row = 0;  // bytes of one head's row
  /// Bytes of a block before its layer 0: where layers differ, each is layer 0 of a layout of its
  /// own.
  std::int64_t first = 0;

  RIGCAST_HOST_DEVICE std::int64_t head_bytes() const {
    return std::int64_t(block_tokens) * (k_row + v_row);
  }
  /// The cache as its sequence `s` sees it.
  RIGCAST_HOST_DEVICE Cache of_sequence(int s) const {
    Cache own = *this;
    own.blocks += std::int64_t(s) * list_stride;
    return own;
  }
  RIGCAST_HOST_DEVICE std::int64_t layer_bytes() const { return kv_heads * head_bytes(); }
  /// Byte offset in a block of the keys of a layer and head; the values follow the keys.
  RIGCAST_HOST_DEVICE std::int64_t keys_at(int layer, int head) const {
    return first + layer * layer_bytes() + head * head_bytes();
  }
  RIGCAST_HOST_DEVICE std::int64_t values_at(int layer, int head) const {
    return keys_at(layer, head) + std::int64_t(block_tokens) * k_row;
  }
};

/// Where the rows of a step are in the cache. All pointers are to GPU memory.
struct StepRows {
  /// The position of every row in its sequence. Without `sequence`: that of the first row; the
  /// others follow it.
  const int* position = nullptr;
  const int* sequence = nullptr;  // of every row; nullptr: all are tokens of sequence 0

#ifdef __CUDACC__
  __device__ int position_of(int row) const { return sequence ? position[row] : *position + row; }
  __device__ int sequence_of(int row) const { return sequence ? sequence[row] : 0; }
#endif
};

}  // namespace rigcast::engine::cuda
