#pragma once
// Latent attention (MLA) in its absorbed form, between a layer's projections and its output matrix:
// queries are brought to the cache's rows, which are keys and values of all heads, and what
// attention gives is brought to each head's values.

#include <cuda_fp16.h>

#include "engine/backends/cuda/weights/device_model.cuh"
#include "engine/cuda/cublas/matmul.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/activations/inputs.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kernels/cuda/latent/latent_attention.cuh"
#include "engine/kernels/cuda/latent/latent_rows.cuh"
#include "engine/model/hyperparameters.hpp"

namespace rigcast::engine::cuda {

/// Where a step's projections of a layer are: [token][first | rows], and of compressed queries
/// [token][queries] behind all of these. `first`: queries, compressed if they are.
struct LatentPlaces {
  float *first = nullptr, *rows = nullptr, *queries = nullptr;
  int width = 0;        // of first and rows together
  int query_width = 0;  // between the queries of neighbouring tokens
};
LatentPlaces latent_places(const DeviceLayer& w, float* projected, int tokens);

/// The matrix whose products are at LatentPlaces::first.
inline const DeviceMatrix& first_of_queries(const DeviceLayer& w) { return w.q_a ? w.q_a : w.q; }

/// What place_latent_rows() takes. `rope_cos_sin`: of the step's tokens.
LatentRows latent_rows(const DeviceLayer& w, const Hyperparameters& hyper,
                       const LatentPlaces& places, const RopeAngle* rope_cos_sin);

/// A layer's cache, and where the step's rows are in it.
struct LatentCache {
  Cache cache;
  int layer = 0;
  StepRows at;
};

/// Memory of a single token: two inputs of products in both forms, queries and partials.
struct LatentToken {
  Outputs between;  // [heads][plain], then [heads][rank]
  Outputs values;   // [heads][value]
  __half* queries = nullptr;
  Partials partials{};
};
/// token.values = the attention output of each head, in the form that `w.output` multiplies; the
/// token's row is stored. Attention over the cache is cut into `splits` parts. Launches are kEarly.
void attend_latent_token(const Stream& stream, const DeviceLayer& w, const LatentRows& rows,
                         const LatentCache& cache, int splits, const LatentToken& token);

/// For a cache that is elsewhere: message [heads + 2][row] = the token's queries and its row
/// (write_latent_message). `row`: room for it.
void write_latent_token(const Stream& stream, const DeviceLayer& w, const LatentRows& rows,
                        const LatentToken& token, float* row, float* message);
/// token.values = each head's values of what attention elsewhere gave, [heads][row] at
/// token.between.floats.
void take_latent_token(const Stream& stream, const DeviceLayer& w, const LatentToken& token);

/// Memory of a batch's rows.
struct LatentBatch {
  const Matmul& matmul;
  __half* x = nullptr;         // [token][heads][plain], then the results: [token][heads][value]
  __half* queries = nullptr;   // [token][heads][rank | turned]
  __half* weights = nullptr;   // room for a matrix of all heads
  __half* attended = nullptr;  // [token][heads][rank]
};
/// Stores the rows of a step's tokens, and writes their queries.
void place_latent_batch(const Stream& stream, const DeviceLayer& w, const LatentRows& rows,
                        const LatentCache& cache, int tokens, const LatentBatch& batch);
/// batch.attended = attention of tokens [first, first + count) of the step to the cache.
void attend_latent_batch(const Stream& stream, const DeviceLayer& w, const LatentCache& cache,
                         int first, int count, const LatentBatch& batch);
/// batch.x = each head's values of what attention gave.
void make_latent_values(const Stream& stream, const DeviceLayer& w, int tokens,
                        const LatentBatch& batch);

/// The same for a batch: `row` has room for the rows of all tokens, and what attention gave,
/// [token][heads][row], is at `attended`.
void write_latent_messages(const Stream& stream, const DeviceLayer& w, const LatentRows& rows,
                           int tokens, const LatentBatch& batch, float* row, float* messages);
void take_latent_messages(const Stream& stream, const DeviceLayer& w, int tokens,
                          const LatentBatch& batch, const float* attended);

}  // namespace rigcast::engine::cuda
