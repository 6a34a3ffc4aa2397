#pragma once
// The operations of a transformer in scalar F32; every sum runs in double.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/model.hpp"

namespace rigcast::engine::ref {

/// out = x / sqrt(mean square of x + eps) * weight. `out` may be `x`.
void rms_norm(std::span<const float> x, std::span<const float> weight, float eps,
              std::span<float> out);

/// y = m x, a row at a time.
void matvec(const Matrix& m, std::span<const float> x, std::span<float> y);

/// How positions turn a head.
struct Rotation {
  RopePairs pairs = RopePairs::kNeighbours;
  int dims = 0;  // the first of a head; the rest does not turn
  float base = 10000.0f;
  float scale = 1.0f;
  std::span<const float> factors{};  // frequencies are divided by them; empty: none
};
Rotation rotation_of(const Model& model);

/// Turns pair i of a head by position * scale * base^(-2 i / dims) / factors[i].
void rope(std::span<float> head, std::int64_t position, const Rotation& rotation);

void softmax(std::span<float> x);

/// x / (1 + e^-x)
float silu(float x);

/// Keys and values of one KV head: token t's are at `stride` * t.
struct KvRows {
  const float* keys = nullptr;
  const float* values = nullptr;
  std::int64_t stride = 0;
};

/// Values of the tokens [first, end), weighted by softmax(query . key / sqrt(head width)).
void attend(std::span<const float> query, const KvRows& kv, std::int64_t first, std::int64_t end,
            std::span<float> out);

struct ChosenExpert {
  int expert = 0;
  float weight = 0;
};

/// The `used` experts of largest probability, the likeliest first; of equals the lower index.
/// Weights are probabilities among all experts, or made to sum to 1.
std::vector<ChosenExpert> choose_experts(std::span<const float> logits, int used, bool normalised);

}  // namespace rigcast::engine::ref
