#pragma once
// Dequantizes one layer of a quantized KV cache to F16, for many queries to read.

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"

namespace rigcast::engine::cuda {

/// Converts rows of the layer to F16 (the nearest to d * q) in layer 0 of `to`: an F16 cache of one
/// layer with the same heads and block size, which has blocks for all positions that are seen.
/// Converted are the positions that tokens at *position to *position + tokens - 1 see: all up to
/// themselves, or with a window its width. Call it before attend_causally(), which gives the same
/// result from either cache, in half the time from this one. Throws CudaFailure.
void dequantize_kv(const Stream& stream, const Cache& from, int layer, int window, int tokens,
                   const int* position, const Cache& to);

struct TokenRange {
  int first = 0, end = 0;
};
/// As dequantize_kv(), for the positions `tokens` of layer 0 of `from`. The kernel starts after all
/// queued work.
void dequantize_kv_blocks(const Stream& stream, const Cache& from, const TokenRange& tokens,
                          const Cache& to);

}  // namespace rigcast::engine::cuda
