#pragma once
// Queries of latent attention before they meet the cache, and the store of the cache's rows.

#include <cuda_fp16.h>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/activations/inputs.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kernels/cuda/kv/new_tokens.cuh"

namespace rigcast::engine::cuda {

/// Widths of latent attention (engine/model/model.hpp): multiples of 32, of a row up to
/// kMaxLatentRow.
struct LatentWidths {
  int heads = 0;
  int rank = 0, plain = 0, turned = 0;

  __host__ __device__ int query() const { return plain + turned; }
  __host__ __device__ int row() const { return rank + turned; }
};
inline constexpr int kMaxLatentRow = 1024;

/// The projections of a step's tokens. `queries`: [token][heads][plain | turned]; `rows`:
/// [token][rank | turned], each with a stride in floats.
struct LatentRows {
  LatentWidths widths;
  const float* queries = nullptr;
  std::int64_t query_stride = 0;
  const float* rows = nullptr;
  std::int64_t row_stride = 0;
  const float* norm = nullptr;  // [rank]: RMS norm of what is not turned of a row
  float norm_eps = 0;
  RopePairs pairs = RopePairs::kInterleaved;
  const RopeAngle* rope_cos_sin = nullptr;  // [token][turned / 2], from compute_rope_angles()
  float query_scale = 1;                    // query_scale() (rope_and_store.cuh)
  QueryTemperature temperature{};
};

/// Where queries go, times query_scale and their temperature. The turned part of each head goes
/// behind the rank elements that its plain part will be brought to.
struct LatentQueries {
  __half* queries = nullptr;     // [token][heads][rank | turned]
  __half* plain_fp16 = nullptr;  // [token][heads][plain], in either form; null: not written
  Outputs plain{};               // the same, of a single token
  /// For a cache that is elsewhere: [token][rank | turned], the rows as they are. Queries are
  /// neither scaled nor turned then, and nothing is stored. null: rows are stored.
  float* rows = nullptr;
};

/// Writes queries, and stores rows in the cache's layer, in its type of keys, quantized as by the
/// CPU's cache. All pointers are to GPU memory. The launch is kEarly. Throws CudaFailure,
/// std::invalid_argument.
void place_latent_rows(const Stream& stream, const LatentRows& from, const Cache& cache, int layer,
                       int tokens, const StepRows& rows, const LatentQueries& to);

/// message [token][heads + 2][row] = queries of all heads, and `rows`, for who has the cache; what
/// is behind them is not written. The launch is kEarly.
void write_latent_message(const Stream& stream, const LatentWidths& widths, int tokens,
                          const __half* queries, const float* rows, float* message);

}  // namespace rigcast::engine::cuda
