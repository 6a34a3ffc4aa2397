#pragma once
// Fills buffers with random values: matrix units draw less power on zeros, and would then run
// faster than on weights.

#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::probe {

/// Fills the buffer, except up to three bytes at its end. The work is queued.
void fill_random(const engine::DeviceBuffer& buffer, const engine::Stream& stream);

}  // namespace rigcast::probe
