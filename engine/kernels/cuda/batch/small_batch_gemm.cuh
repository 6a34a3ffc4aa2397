#pragma once
// Products of quantized weights with a small batch of tokens on tensor cores (sm_80 and later).
// Weights are read in their own format, once for up to 64 tokens, and converted to F16 in
// registers; activations are F16, sums F32, in a fixed order. Calls queue their work; launches are
// kEarly, and read weights before their inputs are ready. All functions throw CudaFailure, and
// std::invalid_argument where formats or shapes do not fit.

#include <cuda_fp16.h>

#include <cstdint>
#include <span>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/activations/gate_function.cuh"
#include "engine/kernels/cuda/batch/experts_batch.cuh"
#include "engine/kernels/cuda/batch/small_batch_formats.hpp"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"
#include "engine/kernels/cuda/matvec/matvec.cuh"

namespace rigcast::engine::cuda {

/// True if the current GPU runs these kernels.
bool has_small_batch_gemm();

/// [tokens][columns], aligned to 16 bytes.
struct Fp16Batch {
  const __half* x = nullptr;
  int tokens = 0;
};

/// Row t of the output is at out + t * stride.
struct SmallBatchJob {
  DeviceMatrix w;
  float* out = nullptr;
  const float* bias = nullptr;  // [rows]; null: none
};
struct SmallBatchRows {
  std::int64_t stride = 0;  // in floats
  bool add = false;         // adds to what the output holds
};

/// The tiling: a thread block has 8 warps and multiplies row_warps * 32 rows with up to `tokens`
/// tokens; 8 / row_warps warps share the columns of a row. 0: chosen by shape.
struct SmallBatchSplit {
  int tokens = 0;     // 16, 32 or 64
  int row_warps = 0;  // 1, 2, 4 or 8; raised where shared memory is too small for fewer
};

/// Up to kMaxJobs products with the same activations: out = w x + bias. Consecutive jobs of one
/// format are one launch.
void small_batch_gemm(std::span<const SmallBatchJob> jobs, const Fp16Batch& x,
                      const SmallBatchRows& rows, const Stream& stream,
                      const SmallBatchSplit& cut = {});

/// out[token][rows] = function(gate x) * (up x), clamped to +-65504. `gate_out`: a work buffer of
/// [tokens][rows].
void small_batch_gate_up(const DeviceMatrix& gate, const DeviceMatrix& up, const Fp16Batch& x,
                         float* gate_out, __half* out, const Stream& stream,
                         const SmallBatchSplit& cut = {},
                         GateFunction function = GateFunction::kSilu);

/// As small_batch_gate_up(), for each expert's tokens of x[tokens]: row t * used + i of `out`
/// belongs to token t and its i-th expert.
void grouped_gate_up(const DeviceMatrixStack& gate, const DeviceMatrixStack& up,
                     const ExpertGroups& groups, const __half* x, float* gate_out, __half* out,
                     const Stream& stream, GateFunction function = GateFunction::kSilu);

/// out[tokens * used][rows] = the product of x[tokens * used] and the down matrix of each row's
/// expert.
void grouped_down(const DeviceMatrixStack& down, const ExpertGroups& groups, const __half* x,
                  float* out, const Stream& stream);

}  // namespace rigcast::engine::cuda
