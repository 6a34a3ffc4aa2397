#pragma once
// What can run a model, by name. A backend is a folder here and a row of built_in_backends().

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/gguf/file.hpp"
#include "engine/run/executor.hpp"
#include "engine/run/executor_options.hpp"

namespace rigcast::engine {

struct EngineBackend {
  using Made = Result<std::unique_ptr<Executor>>;

  std::string name;  // as --device has it
  /// The GPU that an executor would run on. kMachine: none that this program can use, and why; so
  /// answers a build without the backend's code. Absent: the backend runs on the host alone.
  std::function<Result<GpuDevice>()> gpu{};
  /// An executor of a file's weights, and one of random weights that a seed determines. Errors are
  /// those of the backend's own make_..._executor.
  std::function<Made(const GgufFile&, const ExecutorOptions&)> from_file;
  std::function<Made(const ModelSpec&, const TensorTable&, std::uint64_t seed,
                     const ExecutorOptions&)>
      synthetic;
};

class Backends {
 public:
  /// In place of one of the same name.
  void add(EngineBackend backend);
  /// Error: no backend has that name; the hint lists those that are there.
  Result<const EngineBackend*> find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, EngineBackend, std::less<>> by_name_;
};

/// "cpu" and "cuda". The latter is there without CUDA, too, and says so when it is asked.
const Backends& built_in_backends();

}  // namespace rigcast::engine
