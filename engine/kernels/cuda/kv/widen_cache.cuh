#pragma once
// One layer of a quantized KV cache as halves, for many queries to read.

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"

namespace rigcast::engine::cuda {

/// Rows of the layer become halves (the nearest to d * q) in layer 0 of `to`: an F16 cache of one
/// layer with the same heads and blocks of as many tokens, which are there for all positions that
/// are seen. Positions: those that tokens at *position to *position + tokens - 1 see of themselves
/// and before; with a window only its width. Before attend_causally, which computes the same from
/// either cache and takes half the time with this one. Throws CudaFailure.
void widen_cache(const Stream& stream, const Cache& from, int layer, int window, int tokens,
                 const int* position, const Cache& to);

struct TokenRange {
  int first = 0, end = 0;
};
/// The same of layer 0 of `from` and of these positions, launched after all that is queued.
void widen_blocks(const Stream& stream, const Cache& from, const TokenRange& tokens,
                  const Cache& to);

}  // namespace rigcast::engine::cuda
