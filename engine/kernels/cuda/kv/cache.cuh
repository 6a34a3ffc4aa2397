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

/// Token t is in block t / block_tokens. A block holds [layer][kv head][K|V][token][head_dim], as
/// the CPU's cache does (engine/kv). Rows are in the cache's types: F16, Q8_0 or Q4_0.
struct Cache {
  std::byte* const* blocks = nullptr;  // [block]; the list and the blocks are on the GPU
  int block_tokens = 128;
  int kv_heads = 0;
  int head_dim = 0;
  QuantFormat k_type = QuantFormat::kF16, v_type = QuantFormat::kF16;
  int k_row = 0, v_row = 0;  // bytes of one head's row

  RIGCAST_HOST_DEVICE std::int64_t head_bytes() const {
    return std::int64_t(block_tokens) * (k_row + v_row);
  }
  RIGCAST_HOST_DEVICE std::int64_t layer_bytes() const { return kv_heads * head_bytes(); }
  /// Byte offset in a block of the keys of a layer and head; the values follow the keys.
  RIGCAST_HOST_DEVICE std::int64_t keys_at(int layer, int head) const {
    return layer * layer_bytes() + head * head_bytes();
  }
  RIGCAST_HOST_DEVICE std::int64_t values_at(int layer, int head) const {
    return keys_at(layer, head) + std::int64_t(block_tokens) * k_row;
  }
};

}  // namespace rigcast::engine::cuda
