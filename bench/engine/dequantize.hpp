#pragma once
// Weights to F32 as fast as the tiles' own decoder: what an engine that leaves products to a BLAS
// does with a matrix first.

#include <cstdint>

#include "engine/model/matrix.hpp"

namespace rigcast::bench {

/// Rows [first, last) of Q4_K or Q6_K; `out` is the first row's place.
void dequantize_rows(const engine::Matrix& m, std::int64_t first, std::int64_t last, float* out);

}  // namespace rigcast::bench
