#pragma once
// How far the queue of a long batch runs ahead of the GPU.

#include <array>
#include <cstddef>

#include "engine/cuda/mark.cuh"

namespace rigcast::engine::cuda {

/// Keeps what is queued of a long batch a few layers ahead of the GPU: what is queued has to end
/// before a call that is to stop does, and a layer of thousands of tokens after many, or one whose
/// weights are copied, takes tens of milliseconds.
class Pace {
 public:
  void begin_layer(const Stream& stream) {
    const Mark& mark = marks_[layer_++ % marks_.size()];
    mark.wait();
    mark.set(stream);
  }

 private:
  std::array<Mark, 4> marks_;
  std::size_t layer_ = 0;
};

}  // namespace rigcast::engine::cuda
