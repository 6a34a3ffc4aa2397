#pragma once
// The first steps of a GPU's batch, which load and record what later ones use.

#include "engine/run/batch_executor.hpp"

namespace rigcast::engine::cuda {

/// Computes prompts of many lengths, the last of them behind cached tokens and beside a token of
/// another sequence: the driver loads each kernel when it is first launched, and cuBLAS chooses
/// among its own by the number of tokens, which takes longer than the step. Takes the blocks of the
/// longest step from block 0 on, or all there are. Throws what step() throws.
void warm_up_prompts(BatchExecutor& executor);

/// Computes tokens of 1 to BatchLimits::step_sequences sequences, chosen as the likeliest and at
/// random: a graph is recorded for each number of rows, and for each doubling of the longest
/// context. Contexts of up to 2,048 tokens are taken, as far as the pool has blocks for them; what
/// longer ones need is recorded when they come. Blocks that are cold are left alone. Throws what
/// step() throws.
void warm_up_decode(BatchExecutor& executor);

}  // namespace rigcast::engine::cuda
