#pragma once
// What computing a model needs to know beyond the shapes of its tensors.

namespace rigcast::engine {

/// Which elements of a head turn together.
enum class RopePairs {
  kNeighbours,  // 2i and 2i + 1: files of "llama" (their q and k rows are permuted to suit)
  kHalves,      // i and i + n / 2: qwen2, qwen3
};

/// What computing needs and sizes do not.
struct Hyperparameters {
  float norm_eps = 1e-5f;
  float rope_base = 10000.0f;
  int rope_dims = 0;  // of a head, even; the rest does not turn
  RopePairs rope_pairs = RopePairs::kNeighbours;
  float rope_scale = 1.0f;         // positions are multiplied by this (linear scaling: 1 / factor)
  bool normalised_experts = true;  // weights of the chosen experts are made to sum to 1
};

}  // namespace rigcast::engine
