#pragma once
// The matrices of a model under a quant mix, in the order of a forward pass, filled with synthetic
// weights.

#include <string>
#include <vector>

#include "core/model/model_spec.hpp"
#include "engine/memory/large_pages.hpp"
#include "engine/model/matrix.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::bench {

/// Matrices that are multiplied with the same activations, all at once.
using Together = std::vector<engine::Matrix>;

struct Weights {
  engine::LargePages buffer;
  std::vector<Together> layers;  // [q k v] [output] [gate up] [down], layer after layer
  Together head;

  double layer_bytes() const;
  double layer_elements() const;
};

/// Makes weights of a dense model with tied embeddings. `mix`: as QuantMix::from_name reads it.
Weights make_weights(const ModelSpec& model, const std::string& mix, engine::ThreadTeam& team);

}  // namespace rigcast::bench
