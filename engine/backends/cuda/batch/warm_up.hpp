#pragma once
// The first steps of a GPU's batch, which load what later ones use.

#include "engine/run/batch_executor.hpp"

namespace rigcast::engine::cuda {

/// Computes prompts of many lengths: cuBLAS chooses among its kernels by the number of tokens, and
/// loads each of them when it is first chosen, which takes longer than the step. Takes the blocks
/// of the longest step from block 0 on, or all there are. Throws what step() throws.
void warm_up_prompts(BatchExecutor& executor);

}  // namespace rigcast::engine::cuda
