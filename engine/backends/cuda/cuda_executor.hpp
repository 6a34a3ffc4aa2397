#pragma once
// The executor of an NVIDIA GPU, and of the host where it has parts of the model. A build without
// CUDA has the same functions, which say so.

#include <cstdint>
#include <memory>

#include "core/base/error.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/gguf/file.hpp"
#include "engine/run/executor.hpp"
#include "engine/run/executor_options.hpp"

namespace rigcast::engine {

/// Copies the weights from where they lie in memory. Those that the placement leaves to the host
/// are copied, too, or read, into pinned memory of their own: kDoesNotFit where there is too
/// little.
Result<std::unique_ptr<Executor>> make_cuda_executor(std::shared_ptr<const Model> model,
                                                     const ExecutorOptions& options);

/// Reads the file into the GPU's memory. Errors: those of load_model; kDoesNotFit where the GPU's
/// memory or the limit of the host's does not hold the weights; kMachine where there is no GPU, or
/// `go_on` ended it.
Result<std::unique_ptr<Executor>> make_cuda_executor(const GgufFile& file,
                                                     const ExecutorOptions& options);

/// Weights are made on the GPU: the same bytes as make_synthetic_model's.
Result<std::unique_ptr<Executor>> make_synthetic_cuda_executor(const ModelSpec& spec,
                                                               const TensorTable& tensors,
                                                               std::uint64_t seed,
                                                               const ExecutorOptions& options);

/// The first GPU. kMachine where there is none that CUDA can use, or none of this program's code
/// fits it, with why.
Result<GpuDevice> cuda_device();

/// Gives back what this process holds of the GPU, so that another finds all of it. No executor may
/// live.
void leave_cuda();

}  // namespace rigcast::engine
