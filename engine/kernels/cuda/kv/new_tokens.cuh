#pragma once
// The projections of new tokens, and the operations on them before they enter the cache.

#include <cstdint>

#include "engine/model/hyperparameters.hpp"

namespace rigcast::engine::cuda {

/// Projections of new tokens: token i's row begins at i * stride (in floats) and holds its heads
/// one after the other. `bias`, as wide as a row, is added unless it is null. Both are aligned to
/// 16 bytes; the stride is a multiple of 4.
struct ProjectedRows {
  const float* rows = nullptr;
  std::int64_t stride = 0;
  const float* bias = nullptr;
};

/// Cosine and sine of the angle by which RoPE rotates a pair of elements.
struct RopeAngle {
  float cos = 1, sin = 0;
};

/// A factor on queries that grows with the position p:
/// 1 + growth * ln(1 + floor((p + offset) / length)).
struct QueryTemperature {
  float growth = 0;  // 0: the factor is 1
  float length = 1;  // in tokens
  float offset = 0;

#ifdef __CUDACC__
  __device__ __forceinline__ float at(int position) const {
    return growth == 0 ? 1 : 1 + growth * logf(1 + floorf((float(position) + offset) / length));
  }
#endif
};

struct NewTokenInputs {
  ProjectedRows q, k, v;
  int heads = 0;                  // number of query heads; the cache has the number of KV heads and
                                  // head_dim
  const float* q_norm = nullptr;  // [head_dim]: RMS norm of each head; null: none
  const float* k_norm = nullptr;
  float norm_eps = 0;
  /// Norms subtract the mean of the head, and have weights of all heads, one after the other.
  bool layer_norms = false;
  bool norms_rotated = false;  // norms of heads are behind RoPE
  /// Heads of queries and keys, or of values, are normed without weights.
  bool plain_norms = false, plain_value_norms = false;
  /// False: another layer has stored the tokens' keys and values; k and v are not read.
  bool stores = true;
  RopePairs pairs = RopePairs::kInterleaved;
  int rope_dims = 0;  // the first elements of a head, which are rotated; even
  /// [token][rope_dims / 2], from compute_rope_angles(). The kernel reads it, and the position,
  /// before the previous kernel has ended; so a kernel that was launched kAfter must lie between
  /// the one that writes them and this one.
  const RopeAngle* rope_cos_sin = nullptr;
  float score_scale = 0;  // of query . key; 0: 1 / sqrt(head_dim)
  QueryTemperature temperature{};

#ifdef __CUDACC__
  /// The same with this token as the first.
  __device__ __forceinline__ NewTokenInputs of_token(int token) const {
    NewTokenInputs of = *this;
    of.q.rows += token * q.stride;
    of.k.rows += token * k.stride;
    of.v.rows += token * v.stride;
    of.rope_cos_sin += std::int64_t(token) * (rope_dims / 2);
    return of;
  }
#endif
};

}  // namespace rigcast::engine::cuda
