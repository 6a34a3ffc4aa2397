#pragma once
// The backends that can run a model, by name. A backend is a folder here and a row of
// built_in_backends().

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/gguf/file.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/run/batch_options.hpp"
#include "engine/run/executor.hpp"
#include "engine/run/executor_options.hpp"

namespace rigcast::engine {

/// The GPU of a backend.
struct GpuAccess {
  /// The GPU on which an executor would run. Error kMachine: this program can use no GPU, and why;
  /// a build without the backend's code answers so.
  std::function<Result<GpuDevice>()> device;
  /// Compares the GPU's results with the CPU's, before the first model of its kind runs on a GPU.
  /// Errors: kMachine if they differ or the GPU fails, kDoesNotFit if it has too little memory.
  std::function<std::optional<Error>(const ModelSpec&, const TensorTable&)> check;
  /// Releases all of the GPU's resources that this process holds, so that another process finds all
  /// of its memory. No executor may exist.
  std::function<void()> release;
};

struct EngineBackend {
  using Made = Result<std::unique_ptr<Executor>>;
  using BatchMade = Result<std::unique_ptr<BatchExecutor>>;

  std::string name;                // as in --device
  std::string hardware;            // for the help of --device: "an NVIDIA GPU"; empty: the host
  std::optional<GpuAccess> gpu{};  // absent: the backend runs on the host alone
  /// Make an executor: from a file's weights, or with random weights that a seed determines. Errors
  /// are those of the backend's own make_..._executor.
  std::function<Made(const GgufFile&, const ExecutorOptions&)> from_file;
  std::function<Made(const ModelSpec&, const TensorTable&, std::uint64_t seed,
                     const ExecutorOptions&)>
      synthetic;
  /// Likewise an executor of many sequences. Absent: the backend has none.
  std::function<BatchMade(const GgufFile&, const ExecutorOptions&, const BatchOptions&)>
      batch_from_file{};
  std::function<BatchMade(const ModelSpec&, const TensorTable&, std::uint64_t seed,
                          const ExecutorOptions&, const BatchOptions&)>
      batch_synthetic{};

  bool is_gpu() const { return gpu.has_value(); }
};

class Backends {
 public:
  /// Adds a backend, or replaces the one of the same name.
  void add(EngineBackend backend);
  /// Finds a backend. Error: no backend has that name; the hint lists the names that exist.
  Result<const EngineBackend*> find(std::string_view name) const;
  std::vector<std::string> names() const;
  /// All of them, by name. Pointers stay valid until a backend of the same name is added.
  std::vector<const EngineBackend*> all() const;
  /// The first by name that has a GPU which can be used; nullptr: there is none.
  const EngineBackend* usable_gpu() const;

 private:
  std::map<std::string, EngineBackend, std::less<>> by_name_;
};

/// The reason why no executor of many sequences is made on this backend with these options: the
/// backend has none, or not for this placement. nullopt: batch_from_file and batch_synthetic are
/// there, and may be called.
std::optional<Error> check_batch(const EngineBackend& backend, const ExecutorOptions& options);

/// The backends "cpu" and "cuda". A build without CUDA has "cuda", too; its functions return an
/// error that says so.
const Backends& built_in_backends();
/// The CPU's, the only one that every machine can use.
const EngineBackend& cpu_backend();

}  // namespace rigcast::engine
