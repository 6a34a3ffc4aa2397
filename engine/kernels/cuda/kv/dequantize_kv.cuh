#pragma once
// Dequantizes blocks of a quantized KV cache to F16.

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"

namespace rigcast::engine::cuda {

struct TokenRange {
  int first = 0, end = 0;
};
/// Converts the rows of these positions in layer 0 of `from` to F16 (the nearest to d * q) in layer
/// 0 of `to`: an F16 cache with the same heads and block size, which has blocks for them. The
/// kernel starts after all queued work. Throws CudaFailure.
void dequantize_kv_blocks(const Stream& stream, const Cache& from, const TokenRange& tokens,
                          const Cache& to);

}  // namespace rigcast::engine::cuda
