#pragma once
// What layers read of a token beside the residual stream: an input of each layer, which joins
// behind the FFN. All are made of the token when a step begins.

#include <cstdint>
#include <span>

#include "engine/backends/cpu/cpu_step.hpp"

namespace rigcast::engine {

class LayerInputStage {
 public:
  explicit LayerInputStage(CpuStep& step) : step_(step) {}

  // Every member of the team calls these.
  /// Makes the inputs of all layers from the step's tokens and the hidden states, which are their
  /// embeddings. Nothing, if the model has none.
  void begin(Worker& worker, std::span<const std::int32_t> ids);
  /// block = what the layer's input adds for all tokens of the step, pending. Ends without a
  /// barrier.
  void compute(Worker& worker, int layer, const NextMatrices& next);

 private:
  void finish(std::int64_t row, std::int32_t id, std::span<float> own);

  CpuStep& step_;
  Input gated_;
  cpu::AlignedVector<float> inputs_;  // [token][layer][width]
};

}  // namespace rigcast::engine
