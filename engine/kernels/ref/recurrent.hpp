#pragma once
// What recurrent layers keep of the tokens before, and how a token changes it; sums run in double.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/recurrent_mixers.hpp"

namespace rigcast::engine::ref {

/// ln(1 + e^x)
float softplus(float x);

/// Convolves every value of x with those of the tokens before, [token][value], the oldest first.
/// `taps`: [value][token], the newest last. x then joins those before, and the oldest leaves.
std::vector<float> convolve(std::span<const float> taps, std::span<const float> x,
                            std::vector<float>& before);

/// The gates of a head's state: it decays to this part; of what it gives for the token's key, this
/// part is replaced by the token's value; or that part of the value is added.
struct DeltaGates {
  float decay = 0, part = 0;
  bool replaces = true;
};
/// A head's state is a matrix, [value][key]. out = the new state times the query, times `scale`.
void delta_rule(std::span<float> state, std::span<const float> query, std::span<const float> key,
                std::span<const float> value, DeltaGates gates, float scale, std::span<float> out);

/// x / max(length of x, eps)
void normalise(std::span<float> x, float eps);

}  // namespace rigcast::engine::ref
