#pragma once
// Factories of the CPU's executor of many sequences, with the signatures that all backends have.

#include <cstdint>
#include <memory>

#include "core/base/error.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/gguf/file.hpp"
#include "engine/model/model.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/run/batch_options.hpp"
#include "engine/run/executor_options.hpp"

namespace rigcast::engine {

/// Makes an executor of a model in memory. Its pools and buffers, and the weights, are counted
/// against options.ram_limit; without batch.blocks, the pool takes what that leaves. Errors:
/// kBadInput where neither is given, or a number is below 1; kDoesNotFit where the limit leaves
/// room for no block. Throws what CpuBatchExecutor throws.
Result<std::unique_ptr<BatchExecutor>> make_cpu_batch_executor(std::shared_ptr<const Model> model,
                                                               const ExecutorOptions& options,
                                                               const BatchOptions& batch);

/// Makes an executor that computes from the file's mapped pages, which are read first. Further
/// errors: those of load_model. Throws Interrupted, too.
Result<std::unique_ptr<BatchExecutor>> make_cpu_batch_executor(const GgufFile& file,
                                                               const ExecutorOptions& options,
                                                               const BatchOptions& batch);

/// Makes an executor with the weights of make_synthetic_model.
Result<std::unique_ptr<BatchExecutor>> make_synthetic_cpu_batch_executor(
    const ModelSpec& spec, const TensorTable& tensors, std::uint64_t seed,
    const ExecutorOptions& options, const BatchOptions& batch);

}  // namespace rigcast::engine
