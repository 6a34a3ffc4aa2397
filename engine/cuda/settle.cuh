#pragma once
// A rest in a queue of kernels that may begin early.

#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine::cuda {

/// A kernel that does nothing and begins once all work before it has ended, copies and marks that
/// were waited for included. Kernels behind it may begin early (Start::kEarly) and read at once
/// what that work wrote. Throws CudaFailure.
void settle(const Stream& stream);

}  // namespace rigcast::engine::cuda
