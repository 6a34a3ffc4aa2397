#pragma once
// Buffers of random bits: GPUs draw less power on zeros, and then run faster than they ever will on
// weights.

#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::probe {

/// All of the buffer but the up to three bytes that make no word. Queued, not waited for.
void fill_random(const engine::DeviceBuffer& buffer, const engine::Stream& stream);

}  // namespace rigcast::probe
