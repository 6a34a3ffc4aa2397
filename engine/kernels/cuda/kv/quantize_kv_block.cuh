#pragma once
// Quantizes a block of an F16 cache to the types in which the host keeps it.

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"

namespace rigcast::engine::cuda {

/// Quantizes the rows of all layers of `block`, whose layout is `from` (F16; its list of blocks is
/// not used), to the types of `to`, as place() quantizes new rows. Writes [layer][kv
/// head][K|V][token][head_dim] to `out`. Throws CudaFailure.
void quantize_kv_block(const Stream& stream, const Cache& from, int layers, const std::byte* block,
                       const Cache& to, std::byte* out);

}  // namespace rigcast::engine::cuda
