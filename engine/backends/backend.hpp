#pragma once
// The backends that can run a model, by name. A backend is a folder here and a row of
// built_in_backends().

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

  std::string name;  // as in --device
  /// The GPU on which an executor would run. Error kMachine: this program can use no GPU, and why;
  /// a build without the backend's code answers so. Absent: the backend runs on the host alone.
  std::function<Result<GpuDevice>()> gpu{};
  /// Make an executor: from a file's weights, or with random weights that a seed determines. Errors
  /// are those of the backend's own make_..._executor.
  std::function<Made(const GgufFile&, const ExecutorOptions&)> from_file;
  std::function<Made(const ModelSpec&, const TensorTable&, std::uint64_t seed,
                     const ExecutorOptions&)>
      synthetic;
};

class Backends {
 public:
  /// Adds a backend, or replaces the one of the same name.
  void add(EngineBackend backend);
  /// Finds a backend. Error: no backend has that name; the hint lists the names that exist.
  Result<const EngineBackend*> find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, EngineBackend, std::less<>> by_name_;
};

/// The backends "cpu" and "cuda". A build without CUDA has "cuda", too; its functions return an
/// error that says so.
const Backends& built_in_backends();

}  // namespace rigcast::engine
