#pragma once
// The rate of a kernel that only reads.

#include <cstddef>

#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::bench {

/// GB/s over `bytes` at `from` on the device, several times the cache; the best of several runs.
double plain_read_gb_s(const engine::Stream& stream, const std::byte* from, std::size_t bytes);

}  // namespace rigcast::bench
