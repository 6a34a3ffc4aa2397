#pragma once
// What recurrent layers keep of sequences, in a GPU's memory: for each of them a state of fixed
// size, in place of keys and values.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/kernels/cuda/recurrent/mixer_rows.cuh"
#include "engine/model/model.hpp"

namespace rigcast::engine::cuda {

class DeviceStates {
 public:
  /// Room for `count` sequences in these layers, which are recurrent, cleared; without a layer,
  /// nothing. Kernels are queued on `stream`. The first three outlive it. Throws ShortOfMemory.
  DeviceStates(Vram& vram, const Stream& stream, const Model& model, const std::vector<int>& layers,
               int count);

  /// Makes room for further layers of the same model, apart, or gives it back. Throws
  /// ShortOfMemory.
  void add(const std::vector<int>& layers);
  void remove_added();
  bool has_added() const { return added_.floats > 0; }

  LayerStates of(int layer) const {
    const Place& at = places_[std::size_t(layer)];
    const Part& part = at.added ? added_ : own_;
    return {part.memory.as<float>() + at.begin, std::int64_t(part.floats)};
  }

  /// Queue their work. Before the first token a state need not be cleared (LayerStates).
  void clear(int state);
  void copy(int from, int to);

 private:
  // States of some layers, those of a sequence after one another.
  struct Part {
    std::size_t floats = 0;  // of a sequence
    VramPiece memory;

    float* at(int state) const { return memory.as<float>() + std::size_t(state) * floats; }
  };
  struct Place {
    std::size_t begin = 0;
    bool added = false;
  };

  Part make_part(const std::vector<int>& layers, bool added);

  Vram& vram_;
  const Stream& stream_;
  const Model& model_;
  int count_;
  std::vector<Place> places_;  // by layer of the model
  Part own_, added_;
};

}  // namespace rigcast::engine::cuda
