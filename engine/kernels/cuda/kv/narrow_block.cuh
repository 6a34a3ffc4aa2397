#pragma once
// A block of an F16 cache in the types that it is kept in elsewhere.

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"

namespace rigcast::engine::cuda {

/// Rows of all layers of `block`, which lies as `from` says (halves; its list of blocks is not
/// looked at), rounded to the types of `to` as place() rounds new rows, at `out`: [layer][kv
/// head][K|V][token][head_dim] in those types. Throws CudaFailure.
void narrow_block(const Stream& stream, const Cache& from, int layers, const std::byte* block,
                  const Cache& to, std::byte* out);

}  // namespace rigcast::engine::cuda
