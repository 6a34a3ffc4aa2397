#pragma once
// The executor of a model on a GPU, and of the host where it has parts of it.

#include <memory>

#include "engine/backends/cuda/forward/state.cuh"
#include "engine/run/executor.hpp"

namespace rigcast::engine::cuda {

/// `graphs`: a token is launched as one graph, else kernel by kernel.
std::unique_ptr<Executor> executor_of(std::unique_ptr<State> state, bool graphs);

}  // namespace rigcast::engine::cuda
