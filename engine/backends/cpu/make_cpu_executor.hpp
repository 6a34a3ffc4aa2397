#pragma once
// Factories of the CPU's executor, with the signatures that all backends have.

#include <cstdint>
#include <memory>
#include <optional>

#include "core/base/error.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/gguf/file.hpp"
#include "engine/run/executor.hpp"
#include "engine/run/executor_options.hpp"

namespace rigcast::engine {

/// Why the CPU does not attend to a cache of these types; nullopt if it does. It would read rows of
/// another type as if they were F32, past their end.
std::optional<Error> check_cache_on_cpu(KvTypes types);

/// Makes an executor that computes from the file's mapped pages, which are read first. Errors:
/// those of load_model. Throws what CpuExecutor throws, and Interrupted.
Result<std::unique_ptr<Executor>> make_cpu_executor(const GgufFile& file,
                                                    const ExecutorOptions& options);

/// Makes an executor with the weights of make_synthetic_model.
Result<std::unique_ptr<Executor>> make_synthetic_cpu_executor(const ModelSpec& spec,
                                                              const TensorTable& tensors,
                                                              std::uint64_t seed,
                                                              const ExecutorOptions& options);

}  // namespace rigcast::engine
