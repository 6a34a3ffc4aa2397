#pragma once
// Elementwise operations on activations between the products.

#include <cstddef>
#include <cstdint>
#include <span>

namespace rigcast::engine::cpu {

/// out = x / sqrt(mean(x^2) + eps) * weight. `out` may be `x`.
void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, float* out);

/// out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias; an empty bias: 0. `out` may be
/// `x`.
void layer_norm(std::span<const float> x, std::span<const float> weight,
                std::span<const float> bias, float eps, float* out);

/// gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i].
void silu_multiply(std::span<float> gate, const float* up);

/// gate[i] = gate[i] / 2 * (1 + tanh(sqrt(2 / pi) * (gate[i] + 0.044715 * gate[i]^3))) * up[i].
void gelu_multiply(std::span<float> gate, const float* up);

/// values[i] = gelu_multiply's of 1.
void gelu(std::span<float> values);
/// values[i] = max(values[i], 0)^2
void squared_relu(std::span<float> values);
/// x > 0: positive * x^2 + beta * x, else negative * (e^min(x, eps) - 1 - x) + beta * x.
void xielu(std::span<float> values, float positive, float negative, float beta, float eps);

/// g = min(gate[i], 7), u = clamp(up[i], -7, 7): gate[i] = (u + 1) * g / (1 + exp(-1.702 * g)).
void clamped_swiglu(std::span<float> gate, const float* up);

/// values[i] *= scale, then cap * tanh(values[i] / cap); a cap of 0: not that.
void scale_and_cap(std::span<float> values, float scale, float cap);

/// to[i] += factor * from[i].
void add_scaled(std::span<float> to, const float* from, float factor);

/// The nearest F16 of every value, ties to even, 2 bytes each.
void to_fp16(std::span<const float> values, std::byte* out);

}  // namespace rigcast::engine::cpu
