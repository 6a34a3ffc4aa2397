#pragma once
// The operations of a transformer in scalar F32; every sum runs in double.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/model/model.hpp"

namespace rigcast::engine::ref {

/// out = x / sqrt(mean square of x + eps) * weight. `out` may be `x`.
void rms_norm(std::span<const float> x, std::span<const float> weight, float eps,
              std::span<float> out);

/// out = (x - mean) / sqrt(variance + eps) * weight + bias. An empty bias: 0. `out` may be `x`.
void layer_norm(std::span<const float> x, std::span<const float> weight,
                std::span<const float> bias, float eps, std::span<float> out);

/// y = m x, a row at a time.
void matvec(const Matrix& m, std::span<const float> x, std::span<float> y);

/// Parameters of RoPE: the rotation of a head by its position.
struct Rotation {
  RopePairs pairs = RopePairs::kInterleaved;
  int dims = 0;  // dimensions that are rotated, the first of a head
  float base = 10000.0f;
  float scale = 1.0f;
  std::span<const float> factors{};  // frequencies are divided by them; empty: none
  std::optional<Yarn> yarn{};
  float magnitude = 1.0f;
};
/// The rotation of a layer whose AttentionRule::rope is `rope`.
Rotation rotation_of(const Model& model, int rope);

/// Rotates pair i of a head by the angle position * scale * base^(-2 i / dims) / factors[i], where
/// YaRN leaves the scale out for some pairs, and multiplies it by the magnitude.
void rope(std::span<float> head, std::int64_t position, const Rotation& rotation);

void softmax(std::span<float> x);

/// x / (1 + e^-x)
float silu(float x);
/// 1 / (1 + e^-x)
float sigmoid(float x);
/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
float gelu(float x);
/// As engine/model/hyperparameters.hpp has it.
float xielu(float x, const Xielu& by);
/// (clamp(up, -7, 7) + 1) * g * sigmoid(1.702 g), where g is min(gate, 7)
float clamped_swiglu(float gate, float up);
/// cap * tanh(x / cap); x if the cap is 0.
float soft_cap(float x, float cap);

/// Keys and values of one KV head; those of token t are at `stride` * t.
struct KvRows {
  const float* keys = nullptr;
  const float* values = nullptr;
  std::int64_t stride = 0;
};

/// What becomes of query . key: it is scaled, then capped (0: not). A sink is no such product.
struct Scores {
  float scale = 1.0f;
  float softcap = 0;
  std::optional<float> sink{};
};

/// out = the values of tokens [first, end), weighted by the softmax of the query's scores; a sink
/// is one more score, of no value.
void attend(std::span<const float> query, const KvRows& kv, std::int64_t first, std::int64_t end,
            const Scores& scores, std::span<float> out);

struct ChoiceScratch {
  std::vector<int> order;
  std::vector<double> probabilities, scores;
};
/// Chooses the most probable experts, as many as `chosen` holds, in descending order; of equal ones
/// the lower index comes first, and NaN comes last. `bias`, if any, is added to probabilities for
/// that choice alone, and groups limit it. `weights`: as the routing says; a sum below 2^-14
/// divides as if it were that.
void choose_experts(std::span<const float> logits, std::span<const float> bias,
                    const ExpertRouting& routing, std::span<int> chosen, std::span<float> weights,
                    ChoiceScratch& scratch);

struct ChosenExpert {
  int expert = 0;
  float weight = 0;
};
/// The same for `used` experts, as a list.
std::vector<ChosenExpert> choose_experts(std::span<const float> logits, int used,
                                         const ExpertRouting& routing,
                                         std::span<const float> bias = {});

}  // namespace rigcast::engine::ref
