#pragma once
// Dequantization to F32 as fast as the tiles' own decoder: the first step of an engine that leaves
// products to a BLAS.

#include <cstdint>

#include "engine/model/matrix.hpp"

namespace rigcast::bench {

/// Dequantizes rows [first, last) of Q4_K or Q6_K; `out` is the address of the first row.
void dequantize_rows(const engine::Matrix& m, std::int64_t first, std::int64_t last, float* out);

}  // namespace rigcast::bench
