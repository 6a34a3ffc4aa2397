#pragma once
// A full barrier in a queue of kernels that may start early.

#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine::cuda {

/// Launches an empty kernel that starts when all previous work has ended, including copies and
/// events that the stream waits for. Kernels after it may start early (Start::kEarly) and read at
/// once what that work wrote. Throws CudaFailure.
void launch_barrier_kernel(const Stream& stream);

}  // namespace rigcast::engine::cuda
