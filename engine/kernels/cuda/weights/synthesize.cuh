#pragma once
// Synthetic weights made where they are used: the bytes that engine/synth makes, by the GPU.

#include <cstddef>
#include <cstdint>

#include "core/model/quant_format.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/synth/weight_scales.hpp"

namespace rigcast::engine::cuda {

/// What all blocks of one tensor share.
struct SyntheticTensor {
  QuantFormat format = QuantFormat::kF32;
  std::uint64_t key = 0;  // stream_key(seed, name)
  WeightScales scales;
};
/// routes: as of engine::synthesize.
SyntheticTensor synthetic_tensor(const Tensor& tensor, std::uint64_t seed, bool routes = false);

/// Queues the making of blocks [first_block, first_block + bytes / block bytes), byte for byte
/// those of engine::synthesize. `on_device` is aligned to 8 bytes, `bytes` are whole blocks. Throws
/// CudaFailure.
void synthesize(const Stream& stream, const SyntheticTensor& tensor, std::uint64_t first_block,
                std::byte* on_device, std::uint64_t bytes);

}  // namespace rigcast::engine::cuda
