#pragma once
// A limit on how far the launch queue of a long batch runs ahead of the GPU.

#include <array>
#include <cstddef>

#include "engine/cuda/sync_event.cuh"

namespace rigcast::engine::cuda {

/// Limits the launch queue of a long batch to a few layers ahead of the GPU: a call that is to stop
/// must wait for all queued work, and a layer of thousands of tokens after a long context, or one
/// whose weights are copied, takes tens of milliseconds.
class LaunchThrottle {
 public:
  void begin_layer(const Stream& stream) {
    const SyncEvent& mark = marks_[layer_++ % marks_.size()];
    mark.wait();
    mark.set(stream);
  }

 private:
  std::array<SyncEvent, 4> marks_;
  std::size_t layer_ = 0;
};

}  // namespace rigcast::engine::cuda
