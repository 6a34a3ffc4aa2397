// The backend of a build without CUDA.

#include "engine/backends/cuda/cuda_device.hpp"
#include "engine/backends/cuda/make_cuda_executor.hpp"

namespace rigcast::engine {
namespace {

Error none() {
  return {ErrorKind::kMachine,
          "--device cuda: this build has no GPU code",
          "build with a CUDA toolkit (RIGCAST_CUDA=ON), or --device cpu",
          {}};
}

}  // namespace

Result<std::unique_ptr<Executor>> make_cuda_executor(std::shared_ptr<const Model>,
                                                     const ExecutorOptions&) {
  return none();
}

Result<std::unique_ptr<Executor>> make_cuda_executor(const GgufFile&, const ExecutorOptions&) {
  return none();
}

Result<std::unique_ptr<Executor>> make_synthetic_cuda_executor(const ModelSpec&, const TensorTable&,
                                                               std::uint64_t,
                                                               const ExecutorOptions&) {
  return none();
}

Result<std::unique_ptr<BatchExecutor>> make_cuda_batch_executor(std::shared_ptr<const Model>,
                                                                const ExecutorOptions&,
                                                                const BatchOptions&) {
  return none();
}

Result<std::unique_ptr<BatchExecutor>> make_cuda_batch_executor(const GgufFile&,
                                                                const ExecutorOptions&,
                                                                const BatchOptions&) {
  return none();
}

Result<std::unique_ptr<BatchExecutor>> make_synthetic_cuda_batch_executor(const ModelSpec&,
                                                                          const TensorTable&,
                                                                          std::uint64_t,
                                                                          const ExecutorOptions&,
                                                                          const BatchOptions&) {
  return none();
}

Result<GpuDevice> cuda_device() { return none(); }
void release_cuda() {}

}  // namespace rigcast::engine
