#pragma once
// RAII wrappers of CUDA streams, events with time stamps, and captured graphs.

#include <memory>
#include <type_traits>

#include "engine/cuda/cuda_call.cuh"
#include "engine/cuda/device_facts.cuh"

namespace rigcast::engine {

/// A non-blocking stream of the current GPU. Throws CudaFailure, MachineError if no code in this
/// program fits the GPU.
class Stream {
 public:
  Stream() {
    device_facts();  // queried now, because launches query it while a graph is captured
    cudaStream_t stream = nullptr;
    RIGCAST_CUDA_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    stream_.reset(stream);
  }

  cudaStream_t get() const { return stream_.get(); }
  void wait() const { RIGCAST_CUDA_CALL(cudaStreamSynchronize(get())); }

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> stream_;
};

/// An event with a time stamp by the GPU's clock.
class Event {
 public:
  Event() {
    cudaEvent_t event = nullptr;
    RIGCAST_CUDA_CALL(cudaEventCreate(&event));
    event_.reset(event);
  }

  void record(const Stream& stream) const {
    RIGCAST_CUDA_CALL(cudaEventRecord(event_.get(), stream.get()));
  }
  void wait() const { RIGCAST_CUDA_CALL(cudaEventSynchronize(event_.get())); }
  /// Later work on the stream waits for the event.
  void hold(const Stream& stream) const {
    RIGCAST_CUDA_CALL(cudaStreamWaitEvent(stream.get(), event_.get(), 0));
  }
  /// Time between two events, which must both have been reached. The resolution is about half a
  /// microsecond.
  static double seconds_between(const Event& begin, const Event& end) {
    float ms = 0;
    RIGCAST_CUDA_CALL(cudaEventElapsedTime(&ms, begin.event_.get(), end.event_.get()));
    return double(ms) / 1e3;
  }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { static_cast<void>(cudaEventDestroy(event)); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> event_;
};

/// A CUDA graph of the work that `queue` puts on a stream, captured and not run.
class RecordedGraph {
 public:
  template <class Queue>
  RecordedGraph(const Stream& stream, Queue queue) {
    make_ready(*record(stream, queue));
  }

  /// Captures again and updates the graph: a fraction of the time if only arguments have changed.
  template <class Queue>
  void record_again(const Stream& stream, Queue queue) {
    const auto graph = record(stream, queue);
    cudaGraphExecUpdateResultInfo info{};
    if (cudaGraphExecUpdate(graph_.get(), graph.get(), &info) == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());  // the graph has another topology
    make_ready(*graph);
  }

  void launch(const Stream& stream) const {
    RIGCAST_CUDA_CALL(cudaGraphLaunch(graph_.get(), stream.get()));
  }

 private:
  struct Destroy {
    void operator()(cudaGraph_t graph) const { static_cast<void>(cudaGraphDestroy(graph)); }
    void operator()(cudaGraphExec_t graph) const { static_cast<void>(cudaGraphExecDestroy(graph)); }
  };
  using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;

  template <class Queue>
  static Graph record(const Stream& stream, Queue queue) {
    RIGCAST_CUDA_CALL(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    cudaGraph_t recorded = nullptr;
    try {
      queue();
    } catch (...) {
      // Ends the capture, so that the stream can be used again.
      if (cudaStreamEndCapture(stream.get(), &recorded) == cudaSuccess && recorded)
        static_cast<void>(cudaGraphDestroy(recorded));
      throw;
    }
    RIGCAST_CUDA_CALL(cudaStreamEndCapture(stream.get(), &recorded));
    return Graph(recorded);
  }

  void make_ready(std::remove_pointer_t<cudaGraph_t>& graph) {
    cudaGraphExec_t ready = nullptr;
    RIGCAST_CUDA_CALL(cudaGraphInstantiate(&ready, &graph, 0));
    graph_.reset(ready);
  }

  std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy> graph_;
};

}  // namespace rigcast::engine
