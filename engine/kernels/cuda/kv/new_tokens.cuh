#pragma once
// Projections of new tokens and what is done to them on their way into the cache.

#include <cstdint>

#include "engine/model/hyperparameters.hpp"

namespace rigcast::engine::cuda {

/// Projections of new tokens: token i's row begins at i * stride (in floats) and holds its heads
/// one after the other. A bias (as wide as a row) that is null is none; it is added here. Both are
/// aligned to 16 bytes, the stride is a multiple of 4.
struct ProjectedRows {
  const float* rows = nullptr;
  std::int64_t stride = 0;
  const float* bias = nullptr;
};

/// By how much a pair of elements turns.
struct Turn {
  float cos = 1, sin = 0;
};

struct Placement {
  ProjectedRows q, k, v;
  int heads = 0;                  // of queries; those of keys, and their width, are the cache's
  const float* q_norm = nullptr;  // [head_dim]: RMS norm of each head; null: none
  const float* k_norm = nullptr;
  float norm_eps = 0;
  RopePairs pairs = RopePairs::kNeighbours;
  int rope_dims = 0;  // the first of a head turn; even
  /// [token][rope_dims / 2], of make_turns. Read, as the position is, before the kernel before has
  /// ended: a kernel that was launched after the one that wrote them had ended lies between.
  const Turn* turns = nullptr;
};

}  // namespace rigcast::engine::cuda
