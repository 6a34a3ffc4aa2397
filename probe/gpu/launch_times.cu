// The time of an empty kernel: launched alone, in a sequence, and in a graph.
#include "engine/cuda/cuda_buffer.cuh"
#include "probe/gpu/device_time.cuh"
#include "probe/gpu/gpu_parts.hpp"

namespace rigcast::probe {
namespace {

constexpr int kInRow = 1000;
constexpr int kThreads = 128;
constexpr int kHopper = 9;  // the first architecture with programmatic dependent launch
constexpr double kTakeSeconds = 0.3;

// Contains the synchronization for dependent launches, which does nothing otherwise.
__global__ void nothing() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

enum class Launch { kPlain, kDependent };

class Row {
 public:
  Row(const engine::Stream& stream, int blocks) : stream_(stream), blocks_(blocks) {}

  void one(Launch how) const {
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(blocks_));
    config.blockDim = dim3(kThreads);
    config.stream = stream_.get();
    config.attrs = &early;
    config.numAttrs = how == Launch::kDependent ? 1 : 0;
    RIGCAST_CUDA_CALL(cudaLaunchKernelEx(&config, nothing));
  }
  void all(Launch how) const {
    for (int i = 0; i < kInRow; ++i) one(how);
  }

 private:
  const engine::Stream& stream_;
  int blocks_;
};

// Time per kernel of a sequence that `queue` puts on the stream. The first sequence is not counted.
template <class Queue>
Takes in_row(const engine::Stream& stream, Queue queue) {
  const auto take = [&] { return device_seconds(stream, queue) / kInRow; };
  take();
  return takes_of(several_threads(kTakeSeconds, take));
}

double waited(const engine::Stream& stream, const Row& row) {
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kInRow; ++i) {
    row.one(Launch::kPlain);
    stream.wait();
  }
  return seconds_since(begin) / kInRow;
}

}  // namespace

LaunchTimes measure_launches() {
  int device = 0;
  RIGCAST_CUDA_CALL(cudaGetDevice(&device));
  cudaDeviceProp gpu{};
  RIGCAST_CUDA_CALL(cudaGetDeviceProperties(&gpu, device));
  const engine::Stream stream;
  const Row row(stream, gpu.multiProcessorCount);
  LaunchTimes times;
  times.eager = in_row(stream, [&] { row.all(Launch::kPlain); });
  const engine::RecordedGraph plain(stream, [&] { row.all(Launch::kPlain); });
  times.in_graph = in_row(stream, [&] { plain.launch(stream); });
  if (gpu.major >= kHopper) {
    const engine::RecordedGraph dependent(stream, [&] { row.all(Launch::kDependent); });
    times.dependent = in_row(stream, [&] { dependent.launch(stream); });
  }
  times.waited = takes_of(several_threads(kTakeSeconds, [&] { return waited(stream, row); }));
  return times;
}

}  // namespace rigcast::probe
