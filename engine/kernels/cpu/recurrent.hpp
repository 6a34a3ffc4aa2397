#pragma once
// Convolutions over tokens and the gated delta rule of recurrent layers.

#include <cstdint>
#include <span>

namespace rigcast::engine::cpu {

/// out[i] = sum over t of taps[i * rows.size() + t] * rows[t][i], for as many i as `out` has.
void convolve(std::span<const float* const> rows, const float* taps, std::span<float> out);

/// values[i] = values[i] / (1 + exp(-values[i])).
void silu(std::span<float> values);

/// values[i] /= 1 + exp(-gate[i]).
void sigmoid_multiply(std::span<float> values, const float* gate);

/// values[i] *= scale / max(length of all, eps).
void normalise(std::span<float> values, float eps, float scale);

/// One token of a head.
struct DeltaToken {
  const float* query = nullptr;  // [width]; scaled
  const float* key = nullptr;    // [width], of length 1
  const float* value = nullptr;  // [rows]
  float decay = 0;               // of the state
  float part = 0;                // of what the state gives for the key that the value replaces
  float* out = nullptr;          // [rows]
  bool replaces = true;          // the value replaces a part; else that part of it is added
};
/// Tokens of a head, one after the other: state [rows][width] = decay * state + change * key, where
/// change = part * (value - decay * state key),
/// or part * value; out = state query. A row's bits do not depend on
/// which others are computed with it.
void delta_rule(float* state, std::int64_t rows, std::int64_t width,
                std::span<const DeltaToken> tokens);

}  // namespace rigcast::engine::cpu
