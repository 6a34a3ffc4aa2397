#include "engine/backends/cuda/make_cuda_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <span>
#include <utility>

#include "core/scenario/batch_limits.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "engine/backends/cuda/batch/cuda_batch_executor.cuh"
#include "engine/backends/cuda/cuda_executor.cuh"
#include "engine/backends/cuda/forward/state.cuh"
#include "engine/backends/cuda/host_offload/measure_kv_split.cuh"
#include "engine/backends/cuda/host_offload/pinned_memory.hpp"
#include "engine/backends/cuda/weights/upload.cuh"
#include "engine/cuda/cublas/matmul.cuh"
#include "engine/cuda/device_facts.cuh"
#include "engine/cuda/memory/pinned_pages.cuh"
#include "engine/gguf/model/read_model.hpp"
#include "engine/load/host_weights.hpp"
#include "engine/load/load.hpp"
#include "engine/placement/check_placement.hpp"
#include "engine/placement/check_shapes.hpp"
#include "engine/synth/synthetic_model.hpp"

namespace rigcast::engine {
namespace {

using cuda::State;

using MadeState = Result<std::unique_ptr<State>>;

Placement all_on_gpu(const ModelSpec& spec) {
  Placement p;
  p.gpu_layers = spec.layers + 1;
  p.layers.assign(std::size_t(spec.layers), LayerPlacement{0, 0, 0, 0, 0, 0, 0});
  p.head = p.head_on = 0;
  return p;
}

HostPlacement parts_of(const ModelSpec& spec, const ExecutorOptions& options) {
  const bool splits_cold_kv = options.kv_eviction && options.host_share.value_or(1) > 0;
  if (!options.placement && !splits_cold_kv) return {};
  return HostPlacement(spec, options.placement ? *options.placement : all_on_gpu(spec),
                       splits_cold_kv);
}

constexpr const char* kSmaller = "a smaller --quant, --context or --kv-type";

KvTypes cold_types_of(const ExecutorOptions& o) {
  const bool is_fp16 = o.kv_types.k == QuantFormat::kF16 && o.kv_types.v == QuantFormat::kF16;
  return is_fp16 ? KvTypes{o.cold_type, o.cold_type} : o.kv_types;
}

// Blocks that layers with a window keep: where caches neither leave the GPU nor are in two places.
TokenCount window_blocks_of(const ModelSpec& spec, const HostPlacement& parts,
                            const ExecutorOptions& o) {
  if (!o.window_rings || o.kv_eviction || parts.decodes()) return 0;
  return window_ring_blocks(spec, o.ubatch, o.kv_block);
}

cuda::CacheShape shape_of(const ModelSpec& spec, const HostPlacement& parts,
                          const ExecutorOptions& o, const Ram& ram) {
  return {o.kv_types,
          o.kv_block,
          o.kv_eviction,
          cold_types_of(o),
          ram.tracked("KV cache", o.kv_memory ? o.kv_memory : make_pinned_block),
          window_blocks_of(spec, parts, o)};
}

CpuGpuKvSplit kv_split_of(const ModelSpec& spec, const HostPlacement& parts,
                          const ExecutorOptions& o, cuda::Vram& vram) {
  if (!parts.splits_cold_kv() || o.host_share) return CpuGpuKvSplit(o.host_share.value_or(0));
  return CpuGpuKvSplit(cuda::measure_kv_split(vram, spec, cold_types_of(o), o.threads));
}

// Loads cuBLAS, which batches multiply with, while weights are uploaded. An error here occurs again
// at the first product, which reports it.
std::future<void> begin_loading_products(cuda::Vram& vram, const ModelSpec& spec,
                                         const ExecutorOptions& options) {
  if (options.ubatch <= kMaxSmallBatch) return std::async(std::launch::deferred, [] {});
  return std::async(std::launch::async, [&vram, experts = spec.moe.has_value()] {
    // A batch's rows between two matrices of an FFN are FP16; experts have kernels of their own.
    constexpr cuda::ValueType kResults[] = {cuda::ValueType::kF32, cuda::ValueType::kF16};
    try {
      cuda::load_products(vram, std::span(kResults).first(experts ? 1 : 2));
    } catch (const MachineError&) {
    }
  });
}

// Blocks of the latent cache stay together.
std::optional<Error> refuse_latent(const ModelSpec& spec, bool cache_leaves) {
  if (!spec.mla || !cache_leaves) return std::nullopt;
  return bad_input("the cache of latent attention does not leave a GPU by parts",
                   "--kv vram, --kv ram");
}

// What `make` throws, as an error.
template <class Make>
auto told(const Make& make) -> decltype(make()) try {
  return make();
} catch (const ShortOfMemory& e) {
  return Error{ErrorKind::kDoesNotFit, e.what(), kSmaller, {}};
} catch (const MachineError& e) {
  return Error{ErrorKind::kMachine, e.what(), {}, {}};
}

// Blocks that leave the GPU come back through buffers of one layer's size.
Error different_caches(const ModelSpec& spec) {
  return bad_input(
      fmt::format(
          "{}: its layers have different heads, or share caches, and blocks of such caches do "
          "not leave the GPU's memory",
          spec.name),
      "--kv vram or ram");
}

bool has_same_caches(const ModelSpec& spec) {
  if (spec.shared_kv_layers > 0) return false;
  for (const int layer : all_layers(spec))
    if (spec.kv_heads_of(layer) != spec.kv_heads || spec.head_dim_of(layer) != spec.head_dim)
      return false;
  return true;
}

// What the model asks of this GPU, or of the options.
std::optional<Error> refuse_model(const Model& model, const HostPlacement& parts,
                                  const ExecutorOptions& options) {
  if (auto error = check_shapes_on_gpu(model)) return error;
  if (options.kv_eviction && !has_same_caches(model.spec)) return different_caches(model.spec);
  for (int layer = 0; model.spec.layer_embedding > 0 && layer < model.spec.layers; ++layer)
    if (parts.layer(layer))
      return bad_input(fmt::format("{}: tokens have an input of each layer, and the GPU makes them "
                                   "for all: layer {} cannot be the host's",
                                   model.spec.name, layer),
                       "--gpu-layers all, or --device cpu");
  for (int layer = 0; layer < model.spec.layers; ++layer)
    if (const int from = model.layers[std::size_t(layer)].rule.kv_layer;
        from >= 0 && parts.layer(layer) && !parts.layer(from) && !parts.cache(from))
      return bad_input(
          fmt::format("{}: layer {} on the host attends to the cache of layer {}, which "
                      "the GPU has",
                      model.spec.name, layer, from),
          "other --gpu-layers");
  for (int layer = 0; layer < model.spec.layers; ++layer)
    if (parts.experts(layer) && !model.layers[std::size_t(layer)].router_norm.empty())
      return bad_input(
          fmt::format("{}: experts of layer {} are the host's, and the dense FFN beside "
                      "them the GPU's, which is not executed: their sum has a norm",
                      model.spec.name, layer),
          "--gpu-layers with fewer layers, of which the GPU has all");
  constexpr int kWideHeadBytes = 84 << 10;  // of tiles of 16 tokens, and of queries
  const int room = device_facts().block_shared_bytes;
  for (const Layer& l : model.layers)
    if (l.attention.head_dim > 256 && room < kWideHeadBytes)
      return bad_input(
          fmt::format("{}: heads of {} take {} KiB of a block's shared memory, and this "
                      "GPU has {}",
                      model.spec.name, l.attention.head_dim, kWideHeadBytes >> 10, room >> 10),
          "--device cpu");
  return std::nullopt;
}

// Makes the parts of an executor in stages. `kept(parts)`: the bytes of weights that the host
// keeps, which are charged before `bind(parts)` allocates them and returns the model. `make(vram,
// model, parts)` returns the weights on the GPU, and uses `pinned` bytes meanwhile. `states`: of
// recurrent layers.
template <class Kept, class Bind, class Make>
MadeState made(const ModelSpec& spec, const ExecutorOptions& options, int states,
               std::size_t pinned, const Kept& kept, const Bind& bind, const Make& make) {
  cuda::Vram vram(0, options.vram_limit);
  const HostPlacement parts = parts_of(spec, options);
  if (auto error = refuse_latent(spec, options.kv_eviction.has_value())) return *error;
  const Ram ram(options.ram_limit);
  RamCharge host_weights = ram.charge(std::size_t(kept(parts)), "weights");
  Result<std::shared_ptr<const Model>> model = bind(parts);
  if (!model) return model.error();
  if (auto error = refuse_model(**model, parts, options)) return *error;
  const CpuGpuKvSplit kv_split = kv_split_of(spec, parts, options, vram);
  RamCharge upload_buffers = ram.charge(pinned, "upload buffers");
  const std::future<void> products = begin_loading_products(vram, spec, options);
  auto weights = make(vram, **model, parts);
  products.wait();
  upload_buffers = RamCharge();
  return std::make_unique<State>(
      cuda::PlacedModel{*std::move(model), parts, std::move(weights), std::move(host_weights)},
      std::move(vram),
      cuda::StateOptions{shape_of(spec, parts, options, ram), int(options.ubatch), kv_split,
                         options.threads, options.prefill_offload, ram, options.kv_memory,
                         options.before_host_op, options.stop, states});
}

Result<std::unique_ptr<Executor>> executor(MadeState state, const ExecutorOptions& options) {
  if (!state) return state.error();
  return cuda::executor_of(*std::move(state), options.graphs);
}

// A step has as many tokens as a batch of a single sequence may have. The host computes its layers
// and experts in every step: decodes and prompts share steps, so no batch is of prompts alone.
// Which blocks of a pool are cold is decided for the pool: to the layers' placement, and to caches
// of one sequence, none leaves the GPU.
ExecutorOptions of_steps(ExecutorOptions options, const BatchOptions& batch) {
  if (std::exchange(options.kv_eviction, std::nullopt) && options.placement)
    for (LayerPlacement& l : options.placement->layers) l.kv = l.decode_cache_on;
  options.ubatch = batch.step_tokens;
  options.window_rings = false;
  options.prefill_offload = PrefillOffloadPolicy::kHost;
  return options;
}

// Each sequence of a step has a state in recurrent layers; behind these are checkpoints.
int states_of(const BatchOptions& batch) {
  return int(std::min<std::int64_t>(batch.step_sequences, batch.step_tokens)) + batch.checkpoints;
}

bool has_cache_on_host(const Placement& placement) {
  return std::ranges::any_of(placement.layers, [](const LayerPlacement& l) {
    return l.decode_on == kHost || l.decode_cache_on == kHost;
  });
}

Error refused(const BatchRefusal& refusal) { return bad_input(refusal.what, refusal.hint); }

// Where blocks of several sequences are cold.
std::optional<Error> refuse_cold(const ExecutorOptions& options, const BatchOptions& batch) {
  if (!options.kv_eviction) return std::nullopt;
  if (options.host_share.value_or(1) > 0) return refused(kNoHostShareOfBatches);
  const KvTypes cold = cold_types_of(options);
  if (cold.k != options.kv_types.k || cold.v != options.kv_types.v)
    return refused(kNoColdTypesOfBatches);
  if (!batch.blocks && !options.ram_limit)
    return bad_input(
        "the number of blocks for keys and values is open: of those in RAM it follows from a limit "
        "of RAM, and there is none",
        "--ram-limit, or the number of blocks: --kv-tokens");
  return std::nullopt;
}

// Placements that are executed for one sequence only, and sizes that follow from nothing.
std::optional<Error> refuse_batch(const ExecutorOptions& options, const BatchOptions& batch) {
  if (auto error = refuse_cold(options, batch)) return error;
  if (!options.placement) return std::nullopt;
  const Placement& placement = *options.placement;
  const bool on_gpu = std::ranges::any_of(
      placement.layers, [](const LayerPlacement& l) { return l.weights != kHost; });
  if (placement.host_decodes() && on_gpu) return refused(kNoHandoverOfBatches);
  if (!batch.blocks && !options.ram_limit && has_cache_on_host(placement))
    return bad_input(
        "the number of blocks for keys and values is open: for the host's layers it follows from a "
        "limit of RAM, and there is none",
        "--ram-limit, or the number of blocks: --kv-tokens");
  return std::nullopt;
}

Result<std::unique_ptr<BatchExecutor>> batch_executor(MadeState state,
                                                      const ExecutorOptions& options,
                                                      const BatchOptions& batch) {
  if (!state) return state.error();
  if (options.kv_eviction && !has_same_caches((*state)->spec()))
    return different_caches((*state)->spec());
  if (auto error = refuse_latent((*state)->spec(), options.kv_eviction.has_value())) return *error;
  const Allocator make =
      options.kv_memory ? options.kv_memory : cuda::pinned_memory("KV cache", options.stop);
  const cuda::BatchPlacement placement{(*state)->ram.tracked("KV cache", make), options.kv_eviction,
                                       options.graphs};
  return cuda::batch_executor_of(*std::move(state), batch, placement);
}

std::size_t pinned_by_upload(const ExecutorOptions& options) {
  return cuda::Uploader::pinned_bytes({.readers = options.upload_threads});
}

using Bound = Result<std::shared_ptr<const Model>>;

Bound bound(Result<Model> model, const ExecutorOptions& options) {
  if (!model) return model.error();
  choose_rope_factors(*model, options.context);
  return std::make_shared<const Model>(*std::move(model));
}

MadeState uploaded(std::shared_ptr<const Model> model, const GgufFile* file,
                   const ExecutorOptions& options, int states) {
  if (auto error = check_shapes_on_gpu(*model))
    return *error;  // before the host's weights are copied
  const auto bind = [&](const HostPlacement& parts) -> Bound {
    if (!parts.any()) return model;
    const HostWeightsOptions how{cuda::pinned_memory("weights", options.stop),
                                 options.upload_threads, options.keep_going};
    return std::make_shared<const Model>(with_host_weights(*model, parts, file, how));
  };
  return made(
      model->spec, options, states, pinned_by_upload(options),
      [&](const HostPlacement& parts) { return parts.weight_bytes(*model); }, bind,
      [&](cuda::Vram& vram, const Model& own, const HostPlacement& parts) {
        return cuda::upload_model(vram, own, parts, file,
                                  {options.upload_threads, options.keep_going});
      });
}

// A synthetic model with vectors, and only the matrices that the host keeps.
Bound synthetic_host_model(const ModelSpec& spec, const TensorTable& tensors, std::uint64_t seed,
                           const HostPlacement& parts, const ExecutorOptions& options) {
  if (!parts.any()) return bound(make_synthetic_vectors(spec, tensors, seed), options);
  ThreadTeam team(options.threads, ThreadTeam::kSpinTime, options.stop);
  return bound(make_synthetic_model(
                   spec, tensors, seed, team, [&](const Tensor& t) { return parts.has(t); },
                   cuda::pinned_memory("weights", options.stop)),
               options);
}

// Bytes of the matrices in the host's memory. A separate embedding always is, because a GPU reads
// rows of it there. An embedding that is the head's matrix, too, is in both memories if both need
// it.
std::int64_t matrix_bytes(const TensorTable& tensors, const HostPlacement& parts) {
  std::int64_t bytes = 0;
  for (const Tensor& t : tensors.tensors) {
    if (t.dimensions < 2) continue;
    if (t.layer < 0 && t.name == "per_layer_token_embd.weight" && !parts.decodes()) {
      bytes += std::int64_t(t.bytes);  // the GPU reads rows of it there, too
      continue;
    }
    const bool gives_rows = t.role == TensorRole::kTokenEmbedding && !parts.embedding() &&
                            (!tensors.head_is_embedding || parts.head());
    bytes += std::int64_t(t.bytes) * (int(parts.has(t)) + int(gives_rows));
  }
  return bytes;
}

std::optional<Error> refuse(const ExecutorOptions& options) {
  if (options.placement)
    if (auto error = check_placement(*options.placement, options.kv_eviction.has_value()))
      return error;
  constexpr TokenCount kTile = 16;  // tokens that kernels read together
  if (options.kv_block < kTile || options.kv_block % kTile != 0)
    return bad_input("blocks of a GPU's cache hold a multiple of 16 tokens", "128 is usual");
  for (const QuantFormat type : {options.kv_types.k, options.kv_types.v, options.cold_type})
    if (type != QuantFormat::kF16 && type != QuantFormat::kQ8_0 && type != QuantFormat::kQ4_0)
      return bad_input(
          std::string("a cache of ") + std::string(info(type).name) + " is not executed on a GPU",
          "--kv-type f16, q8_0 or q4_0");
  return std::nullopt;
}

MadeState state_of_file(const GgufFile& file, const ExecutorOptions& options,
                        int states = kStatesOfOneSequence) {
  if (auto error = refuse(options)) return *error;
  prefetch_vectors(file);
  auto model = bound(load_model(file), options);
  if (!model) return model.error();
  return uploaded(*std::move(model), &file, options, states);
}

MadeState state_of_model(std::shared_ptr<const Model> model, const ExecutorOptions& options,
                         int states = kStatesOfOneSequence) {
  if (auto error = refuse(options)) return *error;
  return uploaded(std::move(model), nullptr, options, states);
}

MadeState synthetic_state(const ModelSpec& spec, const TensorTable& tensors, std::uint64_t seed,
                          const ExecutorOptions& options, int states = kStatesOfOneSequence) {
  if (auto error = refuse(options)) return *error;
  return made(
      spec, options, states, 0,
      [&](const HostPlacement& parts) { return matrix_bytes(tensors, parts); },
      [&](const HostPlacement& parts) {
        return synthetic_host_model(spec, tensors, seed, parts, options);
      },
      [&](cuda::Vram& vram, const Model& model, const HostPlacement& parts) {
        return cuda::synthesize_model(vram, model, parts, tensors, seed, options.keep_going);
      });
}

}  // namespace

Result<std::unique_ptr<Executor>> make_cuda_executor(std::shared_ptr<const Model> model,
                                                     const ExecutorOptions& options) {
  return told([&] { return executor(state_of_model(std::move(model), options), options); });
}

Result<std::unique_ptr<Executor>> make_cuda_executor(const GgufFile& file,
                                                     const ExecutorOptions& options) {
  return told([&] { return executor(state_of_file(file, options), options); });
}

Result<std::unique_ptr<Executor>> make_synthetic_cuda_executor(const ModelSpec& spec,
                                                               const TensorTable& tensors,
                                                               std::uint64_t seed,
                                                               const ExecutorOptions& options) {
  return told([&] { return executor(synthetic_state(spec, tensors, seed, options), options); });
}

Result<std::unique_ptr<BatchExecutor>> make_cuda_batch_executor(std::shared_ptr<const Model> model,
                                                                const ExecutorOptions& options,
                                                                const BatchOptions& batch) {
  if (auto error = refuse_batch(options, batch)) return *error;
  return told([&] {
    return batch_executor(
        state_of_model(std::move(model), of_steps(options, batch), states_of(batch)), options,
        batch);
  });
}

Result<std::unique_ptr<BatchExecutor>> make_cuda_batch_executor(const GgufFile& file,
                                                                const ExecutorOptions& options,
                                                                const BatchOptions& batch) {
  if (auto error = refuse_batch(options, batch)) return *error;
  return told([&] {
    return batch_executor(state_of_file(file, of_steps(options, batch), states_of(batch)), options,
                          batch);
  });
}

Result<std::unique_ptr<BatchExecutor>> make_synthetic_cuda_batch_executor(
    const ModelSpec& spec, const TensorTable& tensors, std::uint64_t seed,
    const ExecutorOptions& options, const BatchOptions& batch) {
  if (auto error = refuse_batch(options, batch)) return *error;
  return told([&] {
    return batch_executor(
        synthetic_state(spec, tensors, seed, of_steps(options, batch), states_of(batch)), options,
        batch);
  });
}

}  // namespace rigcast::engine
