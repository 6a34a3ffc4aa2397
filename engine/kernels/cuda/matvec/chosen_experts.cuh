#pragma once
// The experts of a mixture, and those that the router chose for a token.

#include <cstddef>

#include "engine/kernels/cuda/weights/matrix.cuh"

namespace rigcast::engine::cuda {

/// Matrices of one format and size, one for each expert.
struct DeviceMatrixStack {
  DeviceMatrix first;
  std::size_t stride = 0;       // bytes from one to the next, a multiple of 256
  const float* bias = nullptr;  // [matrices][rows]; null: none
};

inline DeviceMatrixStack biased(DeviceMatrixStack stack, const float* bias) {
  stack.bias = bias;
  return stack;
}

inline constexpr int kMaxExperts = 1024;  // of a layer
inline constexpr int kMaxExpertsPerToken = 32;

/// Pointers to device memory that route() or an earlier kernel has written.
struct ChosenExperts {
  int* ids = nullptr;        // [used], experts of the stack
  float* weights = nullptr;  // [used]
  int used = 0;              // up to kMaxExpertsPerToken
};

}  // namespace rigcast::engine::cuda
