#pragma once
// A CUDA event without time stamp, for synchronization between streams and with the host.

#include <memory>
#include <type_traits>

#include "engine/cuda/cuda_call.cuh"
#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine {

/// An event of the current GPU. Waiting for an event that was never set returns at once. Throws
/// CudaFailure.
class SyncEvent {
 public:
  /// How wait() passes the time: a thread that sleeps wakes up some 20 us late.
  enum class Waiting { kSleep, kSpin };

  explicit SyncEvent(Waiting waiting = Waiting::kSleep) {
    cudaEvent_t event = nullptr;
    const unsigned sleeps = waiting == Waiting::kSleep ? cudaEventBlockingSync : 0;
    RIGCAST_CUDA_CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | sleeps));
    event_.reset(event);
  }

  /// Records the event behind all work queued on the stream so far; a previous record is replaced.
  void set(const Stream& stream) const {
    RIGCAST_CUDA_CALL(cudaEventRecord(event_.get(), stream.get()));
  }
  /// Later work on the stream waits until the GPU has passed the event.
  void make_wait(const Stream& stream) const {
    RIGCAST_CUDA_CALL(cudaStreamWaitEvent(stream.get(), event_.get(), 0));
  }
  /// Blocks this thread until the GPU has passed the event.
  void wait() const { RIGCAST_CUDA_CALL(cudaEventSynchronize(event_.get())); }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { static_cast<void>(cudaEventDestroy(event)); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> event_;
};

}  // namespace rigcast::engine
