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
  /// nothing. Kernels are queued on `stream`. Throws ShortOfMemory.
  DeviceStates(Vram& vram, const Stream& stream, const Model& model, const std::vector<int>& layers,
               int count);

  bool empty() const { return floats_ == 0; }
  LayerStates of(int layer) const {
    return {memory_.as<float>() + begin_[std::size_t(layer)], std::int64_t(floats_)};
  }

  /// Queue their work. Before the first token a state need not be cleared (LayerStates).
  void clear(int state);
  void copy(int from, int to);

 private:
  float* at(int state) const { return memory_.as<float>() + std::size_t(state) * floats_; }

  const Stream& stream_;
  std::size_t floats_ = 0;          // of a sequence
  std::vector<std::size_t> begin_;  // by layer of the model
  VramPiece memory_;
};

}  // namespace rigcast::engine::cuda
