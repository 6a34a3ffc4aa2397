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
  DeviceMatrix w;
  float* out = nullptr;         // [rows]
  const float* bias = nullptr;  // [rows]; null: none
  const float* add = nullptr;   // [rows], may be `out`; null: none
};

inline constexpr std::size_t kMaxJobs = 3;

/// Up to kMaxJobs products with the same activations in one launch; formats may differ. Columns: a
/// multiple of 32. Throws std::invalid_argument if jobs differ in columns or are too many.
void matvec(std::span<const MatvecJob> jobs, const Inputs& x, const Stream& stream, Start start);

}  // namespace rigcast::engine::cuda
