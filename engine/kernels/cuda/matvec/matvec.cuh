#pragma once
// Matrix-vector products with one token's activations, which take most of the time of decode.
// Weights are read before the previous kernel has ended (Start::kEarly), so they must have been
// written before that kernel was launched; everything else is read and written after it. Sums run
// in a fixed order.

#include <cstddef>
#include <span>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/inputs.cuh"

namespace rigcast::engine::cuda {

/// out = w x + bias + add
struct MatvecJob {
  Matrix w;
  float* out = nullptr;         // [rows]
  const float* bias = nullptr;  // [rows]; null: none
  const float* add = nullptr;   // [rows], may be `out`; null: none
};

inline constexpr std::size_t kMaxJobs = 3;

/// Up to kMaxJobs products with the same activations in one launch; formats may differ. Columns: a
/// multiple of 32. Throws std::invalid_argument if jobs differ in columns or are too many.
void matvec(std::span<const MatvecJob> jobs, const Inputs& x, const Stream& stream, Start start);

/// out = silu(gate x) * (up x), both of the same rows and columns.
void gate_up(const Matrix& gate, const Matrix& up, const Inputs& x, const Outputs& out,
             const Stream& stream, Start start);

/// Matrices of one format and size, one for each expert.
struct MatrixStack {
  Matrix first;
  std::size_t stride = 0;  // bytes from one to the next, a multiple of 256
};

inline constexpr int kMaxExpertsPerToken = 32;

/// Pointers to device memory that route() or an earlier kernel has written.
struct ChosenExperts {
  int* ids = nullptr;        // [used], experts of the stack
  float* weights = nullptr;  // [used]
  int used = 0;              // up to kMaxExpertsPerToken
};

/// As gate_up(), for each of the experts: the result of expert i of `used` is at token i of `out`.
void experts_gate_up(const MatrixStack& gate, const MatrixStack& up, const ChosenExperts& experts,
                     const Inputs& x, const Outputs& out, const Stream& stream, Start start);

/// out = add + sum of weights[i] * (down of expert i) x[i], where x[i] is token i of `x`. `add` may
/// be `out`, or null.
struct ExpertsSum {
  const float* add = nullptr;  // [rows]
  float* out = nullptr;        // [rows]
};
void experts_down(const MatrixStack& down, const ChosenExperts& experts, const Inputs& x,
                  const ExpertsSum& sum, const Stream& stream, Start start);

/// Chooses experts as ref::choose_experts does: the most probable first, and the lower index of
/// equal ones.
struct Router {
  Matrix w;  // F32, F16 or BF16, a row for each expert, up to kMaxExperts
  bool normalised = false;
  float* logits = nullptr;       // [experts]: the kernel's work buffer
  unsigned* arrivals = nullptr;  // 0 before the first launch, and after each one
};
inline constexpr int kMaxExperts = 1024;
void route(const Router& router, const float* x, const ChosenExperts& chosen, const Stream& stream,
           Start start);

}  // namespace rigcast::engine::cuda
