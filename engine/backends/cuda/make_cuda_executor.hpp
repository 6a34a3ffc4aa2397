#pragma once
// Factories of the executor of an NVIDIA GPU, and of the host if it computes parts of the model. A
// build without CUDA has the same functions, which return an error that says so.

#include <cstdint>
#include <memory>

#include "core/base/error.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/gguf/file.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/run/batch_options.hpp"
#include "engine/run/executor.hpp"
#include "engine/run/executor_options.hpp"

namespace rigcast::engine {

/// Makes an executor from weights in memory, which are copied to the GPU. Weights that the
/// placement leaves to the host are copied or read into pinned memory. Error kDoesNotFit: there is
/// too little memory.
Result<std::unique_ptr<Executor>> make_cuda_executor(std::shared_ptr<const Model> model,
                                                     const ExecutorOptions& options);

/// Makes an executor from a file, which is read into the GPU's memory. Errors: those of load_model;
/// kDoesNotFit if the weights exceed the GPU's memory or the limit of the host's; kMachine if there
/// is no GPU, or if `keep_going` ended the upload.
Result<std::unique_ptr<Executor>> make_cuda_executor(const GgufFile& file,
                                                     const ExecutorOptions& options);

/// Makes an executor with synthetic weights, which are generated on the GPU: the same bytes as
/// make_synthetic_model's.
Result<std::unique_ptr<Executor>> make_synthetic_cuda_executor(const ModelSpec& spec,
                                                               const TensorTable& tensors,
                                                               std::uint64_t seed,
                                                               const ExecutorOptions& options);

// The same for an executor of many sequences. Error kBadInput, too, if blocks of the cache leave
// the GPU by their age, if the host decodes what a GPU has prefilled, and if the number of blocks
// is open where the host has a part of each and its memory no limit.
Result<std::unique_ptr<BatchExecutor>> make_cuda_batch_executor(std::shared_ptr<const Model> model,
                                                                const ExecutorOptions& options,
                                                                const BatchOptions& batch);
Result<std::unique_ptr<BatchExecutor>> make_cuda_batch_executor(const GgufFile& file,
                                                                const ExecutorOptions& options,
                                                                const BatchOptions& batch);
Result<std::unique_ptr<BatchExecutor>> make_synthetic_cuda_batch_executor(
    const ModelSpec& spec, const TensorTable& tensors, std::uint64_t seed,
    const ExecutorOptions& options, const BatchOptions& batch);

}  // namespace rigcast::engine
