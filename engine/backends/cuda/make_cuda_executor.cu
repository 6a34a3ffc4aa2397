// From weights and a placement to the executor of a GPU.

#include <future>
#include <span>
#include <utility>

#include "core/scenario/engine_memory.hpp"
#include "engine/backends/cuda/cuda_executor.cuh"
#include "engine/backends/cuda/cuda_executor.hpp"
#include "engine/backends/cuda/forward/state.cuh"
#include "engine/backends/cuda/host_offload/host_share.cuh"
#include "engine/backends/cuda/host_offload/pinned_memory.hpp"
#include "engine/backends/cuda/weights/upload.cuh"
#include "engine/cuda/cublas/matmul.cuh"
#include "engine/cuda/device_facts.cuh"
#include "engine/cuda/gpu_count.cuh"
#include "engine/cuda/memory/pinned_pages.cuh"
#include "engine/gguf/model/read_model.hpp"
#include "engine/load/host_weights.hpp"
#include "engine/load/load.hpp"
#include "engine/placement/refuse_placement.hpp"
#include "engine/placement/refuse_shapes.hpp"
#include "engine/synth/synthetic_model.hpp"

namespace rigcast::engine {
namespace {

using cuda::State;

using Made = Result<std::unique_ptr<Executor>>;

Placement all_on_gpu(const ModelSpec& spec) {
  Placement p;
  p.gpu_layers = spec.layers + 1;
  p.layers.assign(std::size_t(spec.layers), LayerPlacement{0, 0, 0, 0, 0, 0, 0});
  p.head = p.head_on = 0;
  return p;
}

HostParts parts_of(const ModelSpec& spec, const ExecutorOptions& options) {
  const bool shares_cold = options.hot_tokens && options.host_share.value_or(1) > 0;
  if (!options.placement && !shares_cold) return {};
  return HostParts(spec, options.placement ? *options.placement : all_on_gpu(spec), shares_cold);
}

constexpr const char* kSmaller = "a smaller --quant, --context or --kv-type";

KvTypes cold_types_of(const ExecutorOptions& o) {
  const bool halves = o.kv_types.k == QuantFormat::kF16 && o.kv_types.v == QuantFormat::kF16;
  return halves ? KvTypes{o.cold_type, o.cold_type} : o.kv_types;
}

cuda::CacheShape shape_of(const ExecutorOptions& o, const Ram& ram) {
  return {o.kv_types, o.kv_block, o.hot_tokens, cold_types_of(o),
          ram.counted("KV cache", o.kv_memory ? o.kv_memory : make_pinned_block)};
}

ColdSharing sharing_of(const ModelSpec& spec, const HostParts& parts, const ExecutorOptions& o,
                       cuda::Vram& vram) {
  if (!parts.shares_cold() || o.host_share) return ColdSharing(o.host_share.value_or(0));
  return ColdSharing(cuda::measured_sharing(vram, spec, cold_types_of(o), o.threads));
}

// What batches multiply with is loaded beside weights on their way. What fails here fails again
// with the first product, which tells it.
std::future<void> begin_loading_products(cuda::Vram& vram, const ModelSpec& spec,
                                         const ExecutorOptions& options) {
  if (options.ubatch <= kMostShortBatch) return std::async(std::launch::deferred, [] {});
  return std::async(std::launch::async, [&vram, experts = spec.moe.has_value()] {
    // Between two matrices of an FFN a batch's rows are halves; experts have kernels of their own.
    constexpr cuda::ValueType kResults[] = {cuda::ValueType::kF32, cuda::ValueType::kF16};
    try {
      cuda::load_products(vram, std::span(kResults).first(experts ? 1 : 2));
    } catch (const MachineError&) {
    }
  });
}

// `kept(parts)` are the bytes of weights that the host is to keep, which are counted before
// `bind(parts)` takes them and gives the model; `make(vram, model, parts)` gives the weights on the
// GPU, and takes `pinned` bytes meanwhile.
template <class Kept, class Bind, class Make>
Made made(const ModelSpec& spec, const ExecutorOptions& options, std::size_t pinned,
          const Kept& kept, const Bind& bind, const Make& make) try {
  cuda::Vram vram(0, options.vram_limit);
  const HostParts parts = parts_of(spec, options);
  const Ram ram(options.ram_limit);
  RamShare host_weights = ram.take(std::size_t(kept(parts)), "weights");
  Result<std::shared_ptr<const Model>> model = bind(parts);
  if (!model) return model.error();
  if (auto error = refuse_shapes_on_gpu(**model)) return *error;
  const ColdSharing sharing = sharing_of(spec, parts, options, vram);
  RamShare upload_buffers = ram.take(pinned, "upload buffers");
  const std::future<void> products = begin_loading_products(vram, spec, options);
  auto weights = make(vram, **model, parts);
  products.wait();
  upload_buffers = RamShare();
  auto state = std::make_unique<State>(
      cuda::PlacedModel{*std::move(model), parts, std::move(weights), std::move(host_weights)},
      std::move(vram),
      cuda::StateOptions{shape_of(options, ram), int(options.ubatch), sharing, options.threads,
                         options.batches_by, ram, options.kv_memory, options.before_turn,
                         options.stop});
  return cuda::executor_of(std::move(state), options.graphs);
} catch (const ShortOfMemory& e) {
  return Error{ErrorKind::kDoesNotFit, e.what(), kSmaller, {}};
} catch (const MachineError& e) {
  return Error{ErrorKind::kMachine, e.what(), {}, {}};
}

std::size_t pinned_by_upload(const ExecutorOptions& options) {
  return cuda::Uploader::pinned_bytes({.readers = options.upload_threads});
}

using Bound = Result<std::shared_ptr<const Model>>;

Bound bound(Result<Model> model) {
  if (!model) return model.error();
  return std::make_shared<const Model>(*std::move(model));
}

Made uploaded(std::shared_ptr<const Model> model, const GgufFile* file,
              const ExecutorOptions& options) {
  if (auto error = refuse_shapes_on_gpu(*model)) return *error;  // before the host's are copied
  const auto bind = [&](const HostParts& parts) -> Bound {
    if (!parts.any()) return model;
    const HostWeightsHow how{cuda::pinned_memory("weights", options.stop), options.upload_threads,
                             options.go_on};
    return std::make_shared<const Model>(with_host_weights(*model, parts, file, how));
  };
  return made(
      model->spec, options, pinned_by_upload(options),
      [&](const HostParts& parts) { return parts.weight_bytes(*model); }, bind,
      [&](cuda::Vram& vram, const Model& own, const HostParts& parts) {
        return cuda::upload_model(vram, own, parts, file, {options.upload_threads, options.go_on});
      });
}

// Vectors, and the matrices that the host keeps.
Bound synthetic_host_model(const ModelSpec& spec, const TensorTable& tensors, std::uint64_t seed,
                           const HostParts& parts, const ExecutorOptions& options) {
  if (!parts.any()) return bound(make_synthetic_vectors(spec, tensors, seed));
  Team team(options.threads, Team::kPatience, options.stop);
  return bound(make_synthetic_model(
      spec, tensors, seed, team, [&](const Tensor& t) { return parts.has(t); },
      cuda::pinned_memory("weights", options.stop)));
}

// Of the matrices that lie in the host's memory: an embedding of its own does in any case, for a
// GPU takes rows from it. One that is the head as well is there twice where both have a use for it.
std::int64_t matrix_bytes(const TensorTable& tensors, const HostParts& parts) {
  std::int64_t bytes = 0;
  for (const Tensor& t : tensors.tensors) {
    if (t.dimensions < 2) continue;
    const bool gives_rows = t.role == TensorRole::kTokenEmbedding && !parts.embedding() &&
                            (!tensors.head_is_embedding || parts.head());
    bytes += std::int64_t(t.bytes) * (int(parts.has(t)) + int(gives_rows));
  }
  return bytes;
}

std::optional<Error> refuse(const ExecutorOptions& options) {
  if (options.placement)
    if (auto error = refuse_placement(*options.placement, options.hot_tokens.has_value()))
      return error;
  constexpr TokenCount kTile = 16;  // of tokens that kernels read together
  if (options.kv_block < kTile || options.kv_block % kTile != 0)
    return bad_input("blocks of a GPU's cache hold a multiple of 16 tokens", "128 is usual");
  for (const QuantFormat type : {options.kv_types.k, options.kv_types.v, options.cold_type})
    if (type != QuantFormat::kF16 && type != QuantFormat::kQ8_0 && type != QuantFormat::kQ4_0)
      return bad_input(
          std::string("a cache of ") + std::string(info(type).name) + " is not executed on a GPU",
          "--kv-type f16, q8_0 or q4_0");
  return std::nullopt;
}

}  // namespace

Made make_cuda_executor(std::shared_ptr<const Model> model, const ExecutorOptions& options) {
  if (auto error = refuse(options)) return *error;
  return uploaded(std::move(model), nullptr, options);
}

Made make_cuda_executor(const GgufFile& file, const ExecutorOptions& options) {
  if (auto error = refuse(options)) return *error;
  ask_for_vectors(file);
  auto model = bound(load_model(file));
  if (!model) return model.error();
  return uploaded(*std::move(model), &file, options);
}

Made make_synthetic_cuda_executor(const ModelSpec& spec, const TensorTable& tensors,
                                  std::uint64_t seed, const ExecutorOptions& options) {
  if (auto error = refuse(options)) return *error;
  return made(
      spec, options, 0, [&](const HostParts& parts) { return matrix_bytes(tensors, parts); },
      [&](const HostParts& parts) {
        return synthetic_host_model(spec, tensors, seed, parts, options);
      },
      [&](cuda::Vram& vram, const Model& model, const HostParts& parts) {
        return cuda::synthesize_model(vram, model, parts, tensors, seed, options.go_on);
      });
}

Result<GpuDevice> cuda_device() try {
  std::string why;
  if (count_gpus(why) == 0)
    return Error{ErrorKind::kMachine, "--device cuda: " + why, "--device cpu", {}};
  if (const auto refused = refuse_gpu(0))
    return Error{ErrorKind::kMachine, "--device cuda: " + *refused, "--device cpu", {}};
  cudaDeviceProp properties{};
  RIGCAST_CUDA_CALL(cudaGetDeviceProperties(&properties, 0));
  std::size_t free = 0, total = 0;
  RIGCAST_CUDA_CALL(cudaMemGetInfo(&free, &total));
  int driver = 0;
  RIGCAST_CUDA_CALL(cudaDriverGetVersion(&driver));
  return GpuDevice{properties.name, Bytes{double(total)}, Bytes{double(free)},
                   cuda_version_text(driver), device_facts().integrated};
} catch (const CudaFailure& e) {
  return Error{ErrorKind::kMachine, e.what(), "--device cpu", {}};
}

void leave_cuda() { static_cast<void>(cudaDeviceReset()); }

}  // namespace rigcast::engine
