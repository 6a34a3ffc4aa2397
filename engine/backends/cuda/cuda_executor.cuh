#pragma once
// The executor of a model on a GPU, and on the host if it computes parts of the model.

#include <memory>

#include "engine/backends/cuda/forward/state.cuh"
#include "engine/run/executor.hpp"

namespace rigcast::engine::cuda {

/// Makes the executor. `graphs`: a token is launched as one captured graph, otherwise kernel by
/// kernel.
std::unique_ptr<Executor> executor_of(std::unique_ptr<State> state, bool graphs);

}  // namespace rigcast::engine::cuda
