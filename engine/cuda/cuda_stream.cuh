#pragma once
// A queue of work for the GPU, marks in it, and a queue that was recorded to be launched as one.

#include <memory>
#include <type_traits>

#include "engine/cuda/cuda_call.cuh"
#include "engine/cuda/device_facts.cuh"

namespace rigcast::engine {

/// Of the GPU that is current; waits for no other stream. Throws CudaFailure, MachineError where no
/// code in this program fits the GPU.
class Stream {
 public:
  Stream() {
    device_facts();  // asked now, for launches ask while a graph is recorded
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

/// A mark whose time the GPU notes when it gets there.
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
  /// What is queued on the stream from here on begins after the mark.
  void hold(const Stream& stream) const {
    RIGCAST_CUDA_CALL(cudaStreamWaitEvent(stream.get(), event_.get(), 0));
  }
  /// Both have been reached. Half a microsecond is about as fine as it gets.
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

/// What `queue` puts on a stream, recorded and not run.
class RecordedGraph {
 public:
  template <class Queue>
  RecordedGraph(const Stream& stream, Queue queue) {
    make_ready(*record(stream, queue));
  }

  /// In place of what was recorded: a fraction of the time where only arguments have changed.
  template <class Queue>
  void record_again(const Stream& stream, Queue queue) {
    const auto graph = record(stream, queue);
    cudaGraphExecUpdateResultInfo info{};
    if (cudaGraphExecUpdate(graph_.get(), graph.get(), &info) == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());  // it has another shape
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
      // The stream goes on as if nothing had been recorded.
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
