#pragma once
// The router of a mixture of experts, for one token.

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"

namespace rigcast::engine::cuda {

/// Chooses experts as ref::choose_experts does: the most probable first, and the lower index of
/// equal ones.
struct Router {
  DeviceMatrix w;  // F32, F16 or BF16, a row for each expert, up to kMaxExperts
  ChoiceRule rule{};
  float* logits = nullptr;       // [experts]: the kernel's work buffer
  unsigned* arrivals = nullptr;  // 0 before the first launch, and after each one
  const float* bias = nullptr;   // [experts], of logits; null: none
  SharedRouter shared{};
};

/// Throws std::invalid_argument if route() does not choose `used` experts by this rule.
void check_choice(const DeviceMatrix& w, const ChoiceRule& rule, int used);

void route(const Router& router, const float* x, const ChosenExperts& chosen, const Stream& stream,
           Start start);

}  // namespace rigcast::engine::cuda
