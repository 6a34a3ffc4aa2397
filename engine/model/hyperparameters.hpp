#pragma once
// Hyperparameters: what the computation of a model needs beyond the shapes of its tensors.

namespace rigcast::engine {

/// Pairs of a head's elements that RoPE rotates together.
enum class RopePairs {
  kInterleaved,  // 2i and 2i + 1: files of "llama" (their q and k rows are permuted to suit)
  kNeox,         // i and i + n / 2: qwen2, qwen3
};

/// Values that affect results, but no sizes.
struct Hyperparameters {
  float norm_eps = 1e-5f;
  float rope_base = 10000.0f;
  int rope_dims = 0;  // rotated dimensions of a head, even
  RopePairs rope_pairs = RopePairs::kInterleaved;
  float rope_scale = 1.0f;         // positions are multiplied by this (linear scaling: 1 / factor)
  bool normalised_experts = true;  // weights of the chosen experts are normalized to sum to 1
};

}  // namespace rigcast::engine
