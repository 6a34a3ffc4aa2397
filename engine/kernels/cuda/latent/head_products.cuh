#pragma once
// Products of one token whose every head has rows of the matrix, and an input, of its own. Weights
// may be read before the previous kernel has ended, as in matvec().

#include <cuda_fp16.h>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/inputs.cuh"

namespace rigcast::engine::cuda {

/// Rows of head 0, of head 1, and so on: [heads * rows_of_head][columns].
struct HeadMatrix {
  DeviceMatrix w;
  int rows_of_head = 0;  // a multiple of 32
  int x_stride = 0;      // between heads' inputs, a multiple of 32; 0: the columns
};

/// Where the products of all heads go.
struct HeadProducts {
  Outputs out{};             // [heads * rows_of_head], in either form or in both
  __half* halves = nullptr;  // [heads] rows, with a stride; null: not written
  int stride = 0;            // between heads of `halves`
};

/// Products of each head's rows with its part of `x`: [heads] rows of x_stride values. Throws
/// std::invalid_argument, CudaFailure.
void multiply_heads(const HeadMatrix& m, const Inputs& x, const HeadProducts& to,
                    const Stream& stream, Start start);

}  // namespace rigcast::engine::cuda
