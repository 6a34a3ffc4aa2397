#pragma once
// The CPU's executor, made as those of other backends are.

#include <cstdint>
#include <memory>

#include "core/base/error.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/gguf/file.hpp"
#include "engine/run/executor.hpp"
#include "engine/run/executor_options.hpp"

namespace rigcast::engine {

/// Brings the file's pages in and computes from them. Errors: those of load_model. Throws as
/// CpuExecutor does, and Interrupted.
Result<std::unique_ptr<Executor>> make_cpu_executor(const GgufFile& file,
                                                    const ExecutorOptions& options);

/// On weights of make_synthetic_model.
Result<std::unique_ptr<Executor>> make_synthetic_cpu_executor(const ModelSpec& spec,
                                                              const TensorTable& tensors,
                                                              std::uint64_t seed,
                                                              const ExecutorOptions& options);

}  // namespace rigcast::engine
