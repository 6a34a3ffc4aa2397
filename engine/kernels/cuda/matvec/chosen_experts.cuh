#pragma once
// The experts of a mixture, and those that the router chose for a token.

#include <cstddef>

#include "engine/kernels/cuda/weights/matrix.cuh"
#include "engine/model/hyperparameters.hpp"

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
inline constexpr int kMaxExpertGroups = 32;

/// Pointers to device memory that route() or an earlier kernel has written.
struct ChosenExperts {
  int* ids = nullptr;        // [used], experts of the stack
  float* weights = nullptr;  // [used]; of sums, null: each is 1
  int used = 0;              // up to kMaxExpertsPerToken
};

/// The expert that all tokens pass, beside those that a router chose.
struct SharedExpert {
  DeviceMatrix gate, up, down;
  const float* weight = nullptr;  // of its output, which an earlier kernel has written; null: 1

  explicit operator bool() const { return bool(down); }
};

/// How experts are chosen by their logits, and weighted.
struct ChoiceRule {
  ExpertRouting routing{};                // groups: up to kMaxExpertGroups, of the same size
  const float* selection_bias = nullptr;  // [experts], of probabilities, for the choice; null: none
  const float* scale = nullptr;           // [experts], of weights; null: 1
};

/// The router of the expert that all tokens pass: its weight is the sigmoid of a product.
struct SharedRouter {
  const float* w = nullptr;  // [columns], aligned to 16 bytes; null: none
  float* weight = nullptr;
};

}  // namespace rigcast::engine::cuda
