#pragma once
// A file's weights, where the CPU's executors compute with them.

#include "engine/gguf/file.hpp"
#include "engine/model/model.hpp"
#include "engine/run/executor_options.hpp"

namespace rigcast::engine {

/// Loads the file's model as options.weights says. Errors: those of load_model(). Throws
/// MachineError when a page cannot be read, Interrupted, and what options.weight_memory throws.
Result<Model> load_for_cpu(const GgufFile& file, const ExecutorOptions& options);

}  // namespace rigcast::engine
