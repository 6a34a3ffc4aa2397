#pragma once
// Hyperparameters: what the computation of a model needs beyond the shapes of its tensors.

#include <cmath>
#include <optional>
#include <vector>

namespace rigcast::engine {

/// Pairs of a head's elements that RoPE rotates together.
enum class RopePairs {
  kInterleaved,  // 2i and 2i + 1: files of "llama" (their q and k rows are permuted to suit)
  kNeox,         // i and i + n / 2: qwen2, qwen3
};

/// YaRN scales only the frequencies of pairs that turn slowly: those that turn less than `slow`
/// times in a context of the training are scaled by rope_scale, those that turn more than `fast`
/// times stay, and between these the two are mixed.
struct Yarn {
  float context = 0;  // tokens of a context in training
  float fast = 32, slow = 1;
};

/// The activation of Apertus: positive * x^2 + beta * x of x > 0, else
/// negative * (e^min(x, eps) - 1 - x) + beta * x.
struct Xielu {
  float positive = 0, negative = 0, beta = 0, eps = 0;
};
/// From what is trained: alphas before a softplus.
inline Xielu xielu_of(double alpha_p, double alpha_n, double beta, double eps) {
  const auto softplus = [](double x) { return x > 20 ? x : std::log1p(std::exp(x)); };
  return {float(softplus(alpha_p)), float(beta + softplus(alpha_n)), float(beta), float(eps)};
}

/// How a router's logits become the choice of experts and their weights.
struct ExpertRouting {
  bool sigmoid = false;       // probabilities are sigmoids of the logits; else their softmax
  bool normalised = true;     // weights are the probabilities of the chosen, divided by their sum
  float scale = 1;            // weights are multiplied by this
  bool scales_input = false;  // weights multiply what experts read, not what they give
  // Groups of neighbouring experts. Experts are chosen among those of groups_used groups: those
  // whose two best have the largest sums.
  int groups = 1, groups_used = 1;

  bool has_groups() const { return groups_used < groups; }
};

/// Values that affect results, but no sizes.
struct Hyperparameters {
  float norm_eps = 1e-5f;
  bool layer_norm = false;  // the last norm, too, subtracts the mean
  float rope_base = 10000.0f;
  int rope_dims = 0;  // rotated dimensions of a head, even
  RopePairs rope_pairs = RopePairs::kInterleaved;
  float rope_scale = 1.0f;  // positions are multiplied by this (linear scaling: 1 / factor)
  std::optional<Yarn> yarn{};
  float rope_magnitude = 1.0f;  // rotated elements are multiplied by this
  // Of layers with a window, whose RoPE nothing scales; 0: they rotate as the others.
  float local_rope_base = 0;
  int local_rope_dims = 0;  // rotated dimensions there; 0: as elsewhere
  float rope_context = 0;   // tokens up to which the short of two vectors of RoPE factors applies

  float score_scale = 0;    // of attention; 0: 1 / sqrt(head_dim)
  float score_softcap = 0;  // scores become softcap * tanh(score / softcap); 0: they stay
  // Queries are multiplied by 1 + temperature * ln(1 + floor(position / temperature_tokens)).
  float temperature = 0, temperature_tokens = 1;
  float temperature_offset = 0;  // is added to the position there

  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;  // of what attention and FFN add
  float logit_scale = 1.0f;     // logits are multiplied by this
  float logit_softcap = 0;      // bounds logits after that; 0: they stay

  std::vector<Xielu> xielu{};  // by layer; empty: the FFN has another activation

  ExpertRouting routing{};
};

}  // namespace rigcast::engine
