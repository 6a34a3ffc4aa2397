#pragma once
// What happens to activations between the products.

#include <cstdint>
#include <span>

namespace rigcast::engine::cpu {

/// out = x / sqrt(mean(x^2) + eps) * weight. `out` may be `x`.
void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, float* out);

/// gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i].
void silu_multiply(std::span<float> gate, const float* up);

/// to[i] += factor * from[i].
void add_scaled(std::span<float> to, const float* from, float factor);

}  // namespace rigcast::engine::cpu
