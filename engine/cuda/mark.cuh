#pragma once
// A mark in a queue of the GPU that others wait for. Unlike an Event it takes no time.

#include <memory>
#include <type_traits>

#include "engine/cuda/cuda_call.cuh"
#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine {

/// Of the GPU that is current. One that was never set holds nobody up. Throws CudaFailure.
class Mark {
 public:
  Mark() {
    cudaEvent_t event = nullptr;
    RIGCAST_CUDA_CALL(
        cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync));
    event_.reset(event);
  }

  /// Behind all that is queued on the stream so far, in place of where it was set before.
  void set(const Stream& stream) const {
    RIGCAST_CUDA_CALL(cudaEventRecord(event_.get(), stream.get()));
  }
  /// What is queued on the stream from here on begins once the GPU has passed the mark.
  void hold_up(const Stream& stream) const {
    RIGCAST_CUDA_CALL(cudaStreamWaitEvent(stream.get(), event_.get(), 0));
  }
  /// This thread sleeps until the GPU has passed the mark.
  void wait() const { RIGCAST_CUDA_CALL(cudaEventSynchronize(event_.get())); }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { static_cast<void>(cudaEventDestroy(event)); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> event_;
};

}  // namespace rigcast::engine
