#pragma once
// Attention whose queries have a gate of what it gives: models with recurrent layers have it.

#include <cuda_fp16.h>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/recurrent/mixer_rows.cuh"

namespace rigcast::engine::cuda {

/// Projections of tokens: a row has a query and a gate of each head, then keys and values.
struct GatedRows {
  const float* rows = nullptr;
  int q = 0, kv = 0;  // values of all queries, a multiple of 32; of all keys, or all values
  int head_dim = 0;
};

/// to = rows of [q | k | v], without gates
void take_queries(const Stream& stream, const GatedRows& from, int rows, float* to);

/// out = attended[rows][q] * sigmoid(gates), of one row of floats, or of rows of halves in place.
void multiply_by_gates(const Stream& stream, const GatedRows& gates, const float* attended,
                       const MixerOutputs& out);
void multiply_by_gates(const Stream& stream, const GatedRows& gates, int rows, __half* attended);

}  // namespace rigcast::engine::cuda
