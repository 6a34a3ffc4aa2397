#pragma once
// Causal attention of many tokens on Hopper's tensor cores, as prefill_attention.cuh has it.

#include "engine/kernels/cuda/attention/prefill_parameters.cuh"

namespace rigcast::engine::cuda {

/// True if this kernel computes the attention: compute capability 9.0 with code for it, a cache
/// of F16, heads of 128, and as many blocks of rows as run at once, or fewer. With more of them,
/// other kernels have several blocks on a multiprocessor and are faster: 1,024 tokens of an 8B
/// model after 16,384 take 0.87 ms instead of 0.95; 512 take 0.54 instead of 0.47 (H200).
bool has_hopper_attention(const PrefillAttention& attention, const Cache& cache);

/// As attend_causally(), where has_hopper_attention() holds. Throws CudaFailure.
void attend_on_hopper(const Stream& stream, const PrefillAttention& attention, const Cache& cache,
                      int layer, const int* position, const HalfRows& out);

}  // namespace rigcast::engine::cuda
