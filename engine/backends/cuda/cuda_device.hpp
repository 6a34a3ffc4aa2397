#pragma once
// The GPU that the backend uses. A build without CUDA has the same functions.

#include "core/base/error.hpp"
#include "engine/run/executor_options.hpp"

namespace rigcast::engine {

/// The first GPU. Error kMachine: there is no GPU that CUDA can use, or none for which this program
/// has code, and why.
Result<GpuDevice> cuda_device();

/// Releases all GPU resources of this process, so that another process finds all of the memory. No
/// executor may exist.
void release_cuda();

}  // namespace rigcast::engine
