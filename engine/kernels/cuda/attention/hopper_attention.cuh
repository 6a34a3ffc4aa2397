#pragma once
// Causal attention of many tokens on Hopper's tensor cores, as prefill_attention.cuh has it.

#include "engine/kernels/cuda/attention/prefill_parameters.cuh"

namespace rigcast::engine::cuda {

/// True if this kernel computes the attention: compute capability 9.0 with code for it, a cache
/// of F16, heads of up to 256 elements, enough rows of queries for a block, and, where the context
/// is known, two tiles of keys. With fewer the smaller tiles of other kernels are faster: a prompt
/// of 64 tokens of Llama 3.1 8B runs at 14,185 tok/s in place of 13,762; 512 tokens of gpt-oss 20B,
/// half of whose layers see 128, spend 461 us in attention in place of 558 (H200).
bool has_hopper_attention(const PrefillAttention& attention, const Cache& cache);

/// As attend_causally(), where has_hopper_attention() holds. Throws CudaFailure.
void attend_on_hopper(const Stream& stream, const PrefillAttention& attention, const Cache& cache,
                      int layer, const int* position, const HalfRows& out);

}  // namespace rigcast::engine::cuda
