#include "engine/backends/backend.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "engine/backends/cpu/batch/make_cpu_batch_executor.hpp"
#include "engine/backends/cpu/make_cpu_executor.hpp"
#include "engine/backends/cuda/check/gpu_check.hpp"
#include "engine/backends/cuda/cuda_device.hpp"
#include "engine/backends/cuda/make_cuda_executor.hpp"

namespace rigcast::engine {

void Backends::add(EngineBackend backend) {
  std::string name = backend.name;
  by_name_.insert_or_assign(std::move(name), std::move(backend));
}

Result<const EngineBackend*> Backends::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  if (at == by_name_.end())
    return bad_input(fmt::format("there is no backend \"{}\"", name),
                     fmt::format("one of: {}", fmt::join(names(), ", ")));
  return &at->second;
}

std::vector<std::string> Backends::names() const {
  std::vector<std::string> out;
  for (const auto& [name, backend] : by_name_) out.push_back(name);
  return out;
}

std::vector<const EngineBackend*> Backends::all() const {
  std::vector<const EngineBackend*> out;
  for (const auto& [name, backend] : by_name_) out.push_back(&backend);
  return out;
}

const EngineBackend* Backends::usable_gpu() const {
  for (const auto& [name, backend] : by_name_)
    if (backend.is_gpu() && backend.gpu->device()) return &backend;
  return nullptr;
}

std::optional<Error> check_batch(const EngineBackend& backend, const ExecutorOptions& options) {
  if (!backend.batch_from_file || !backend.batch_synthetic)
    return bad_input(
        fmt::format("several users on the backend \"{}\" are not executed yet", backend.name),
        "--device cpu executes them");
  if (!backend.is_gpu() && options.kv_eviction)
    return bad_input(
        fmt::format("the backend \"{}\" has no GPU that blocks of a cache may leave", backend.name),
        "--kv ram");
  if (!backend.is_gpu() && options.placement && options.placement->gpu_layers > 0)
    return bad_input(fmt::format("the backend \"{}\" has no GPU, and {} layers are placed on one",
                                 backend.name, options.placement->gpu_layers));
  return std::nullopt;
}

const Backends& built_in_backends() {
  static const Backends all = [] {
    Backends backends;
    backends.add(
        {"cpu",
         {},
         {},
         make_cpu_executor,
         make_synthetic_cpu_executor,
         [](const GgufFile& file, const ExecutorOptions& options, const BatchOptions& batch) {
           return make_cpu_batch_executor(file, options, batch);
         },
         make_synthetic_cpu_batch_executor});
    // make_cuda_executor() is overloaded: one overload takes a model in memory, which a backend
    // need not offer.
    const auto check = [](const ModelSpec& spec, const TensorTable& tensors) {
      return check_gpu(gpu_check_file(), spec, tensors);
    };
    backends.add(
        {"cuda", "an NVIDIA GPU", GpuAccess{cuda_device, check, release_cuda},
         [](const GgufFile& file, const ExecutorOptions& options) {
           return make_cuda_executor(file, options);
         },
         make_synthetic_cuda_executor,
         [](const GgufFile& file, const ExecutorOptions& options, const BatchOptions& batch) {
           return make_cuda_batch_executor(file, options, batch);
         },
         make_synthetic_cuda_batch_executor});
    return backends;
  }();
  return all;
}

const EngineBackend& cpu_backend() { return **built_in_backends().find("cpu"); }

}  // namespace rigcast::engine
