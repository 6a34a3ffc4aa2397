#pragma once
// What recurrent layers keep of sequences: for each of them a state of fixed size, in place of keys
// and values.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/backends/cpu/step/cpu_step.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/memory/ram.hpp"
#include "engine/model/model.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {

class RecurrentStates {
 public:
  /// Room for `count` sequences, charged here; of a model without recurrent layers, nothing.
  /// `layers`: those that have a state here; absent: all. `memory`: absent: large pages. Throws
  /// ShortOfMemory.
  RecurrentStates(const Model& model, int count, const Ram& ram,
                  const std::optional<std::vector<int>>& layers = {}, Allocator memory = {});

  /// Floats of a layer's state. A mixer with heads: their states, then what it convolved of the
  /// tokens before.
  std::span<float> at(int state, int layer) const;
  bool empty() const { return state_floats_ == 0; }
  /// Bytes of a state: of all layers.
  std::size_t bytes() const { return state_floats_ * sizeof(float); }

  /// Before a layer's tokens of a step: the states of sequences without a token before are empty.
  void begin(std::span<const StepSequence> sequences, int layer);
  void clear(int state);
  void copy(int from, int to);
  void copy(int from, int to, ThreadTeam& team);

 private:
  float* begin(int state) const {
    return reinterpret_cast<float*>(memory_.get()) + std::size_t(state) * state_floats_;
  }

  struct Part {
    std::size_t begin = 0, floats = 0;
  };
  std::vector<Part> parts_;  // by layer
  std::size_t state_floats_ = 0;
  std::shared_ptr<std::byte> memory_;
};

/// Bytes of a sequence's state in all layers.
std::size_t state_bytes(const Model& model);

}  // namespace rigcast::engine
