#include "engine/backends/cuda/forward/state.cuh"

#include <algorithm>
#include <utility>

#include "core/scenario/batch_limits.hpp"
#include "engine/backends/cuda/forward/batch_products.cuh"
#include "engine/backends/cuda/host_offload/pinned_memory.hpp"
#include "engine/cuda/memory/pinned_pages.cuh"
#include "engine/kernels/cuda/attention/most_splits.hpp"
#include "engine/kernels/cuda/latent/latent_attention.cuh"

namespace rigcast::engine::cuda {
namespace {

// The allocator of the host's cache: memory that the GPU copies is pinned. Memory that is pooled
// for reuse is still allocated, and so counted.
Allocator cache_memory(const HostPlacement& host, const StateOptions& o) {
  const auto counted = [&](Allocator make) { return o.ram.tracked("KV cache", std::move(make)); };
  if (o.kv_memory) return counted(o.kv_memory);
  if (host.decodes() && !host.layers_cached_on_gpu().empty()) return counted(make_pinned_block);
  if (!host.offloadable_layers().empty() && o.prefill_offload != PrefillOffloadPolicy::kHost)
    return reused(o.ram, "KV cache", pinned_memory("KV cache", o.stop));
  return counted(make_large_pages);
}

// Makes the host's part; nullptr: the host computes nothing.
std::unique_ptr<HostOffload> make_host_offload(const PlacedModel& model, const Stream& stream,
                                               const DeviceCache& cache, const StateOptions& o) {
  if (!model.host.computes()) return nullptr;
  CpuOptions cpu{o.threads, o.cache.types, o.cache.block_tokens, TokenCount(o.ubatch)};
  cpu.kv_memory = cache_memory(model.host, o);
  cpu.ram = o.ram;
  cpu.stop = o.stop;
  cpu.states = o.states;
  if (o.prefill_offload != PrefillOffloadPolicy::kHost && !model.host.offloadable_states().empty())
    cpu.state_memory = pinned_memory("recurrent states", o.stop);
  // Caches that are staged on the GPU are copied as a whole.
  if (model.host.offloadable_layers().empty()) cpu.window_blocks = o.cache.window_blocks;
  auto host = std::make_unique<HostOffload>(stream, model.model, model.host, cpu, o.before_host_op);
  if (model.host.decodes())
    host->kv_mirror.emplace(stream, cache, host->side.layers().cache(),
                            model.host.layers_cached_on_gpu());
  return host;
}

std::vector<int> layers_cached_on_gpu(const PlacedModel& model) {
  return model.host.any() ? model.host.layers_cached_on_gpu() : all_layers(model.spec());
}

std::vector<int> layers_with_state_on_gpu(const PlacedModel& model) {
  if (model.host.any()) return model.host.layers_with_state_on_gpu();
  std::vector<int> layers;
  for (int i = 0; i < model.spec().layers; ++i)
    if (model.layer(i).is_recurrent()) layers.push_back(i);
  return layers;
}

// The largest number of attention splits: those of the longest context, and one for the host's
// part.
int most_splits(const Model& model, const DeviceContext& device, const DeviceCache& cache) {
  if (model.spec.mla) return 1 + most_latent_splits(model.spec.heads, device.multiprocessors);
  int most = 1;
  for (const Layer& l : model.layers)
    most = std::max(most, most_attention_splits(l.attention.kv_heads, int(l.attention.head_dim),
                                                device.multiprocessors, cache.holds_fp16()));
  return 1 + most;
}

void allocate_batch_memory(State& s, PrefillOffloadPolicy by) {
  s.states.remove_added();
  s.streamed.allocate_memory(by);
  if (by != PrefillOffloadPolicy::kHost) s.states.add(s.model.host.offloadable_states());
  s.buffers.allocate_for_batches(
      *s.model.model, fp16_weights_for_batch(s.model.gpu),
      s.streamed.copies_experts() ? kMaxRoutedTokensStreamed : kMaxRoutedTokens, s.device.vram,
      s.device.stream);
}

// Recurrent layers whose states both sides have.
std::vector<int> mirrored_states(const State& s) {
  if (!s.host) return {};
  if (s.model.host.decodes()) return layers_with_state_on_gpu(s.model);
  return s.states.has_added() ? s.model.host.offloadable_states() : std::vector<int>();
}

// Allocates memory for batches; if the GPU has too little, the host computes them.
void make_room_for_batches(State& s, PrefillOffloadPolicy by) try {
  allocate_batch_memory(s, by);
} catch (const ShortOfMemory&) {
  if (by != PrefillOffloadPolicy::kFaster) throw;
  s.buffers.batch = {};
  allocate_batch_memory(s, PrefillOffloadPolicy::kHost);
}

}  // namespace

State::State(PlacedModel model_, Vram vram, const StateOptions& options)
    : model(std::move(model_)),
      ram(options.ram),
      device(std::move(vram)),
      kv(device.vram, device.stream, spec(), options.cache, layers_cached_on_gpu(model),
         options.kv_split, model.host.splits_cold_kv()),
      states(device.vram, device.stream, *model.model, layers_with_state_on_gpu(model),
             options.states),
      matmul(device.vram, device.stream),
      host(make_host_offload(model, device.stream, kv.cache(), options)),
      buffers(*model.model, options.ubatch, most_splits(*model.model, device, kv.cache()),
              device.vram, device.stream),
      streamed(model, device.vram, device.stream, kv.cache(), host.get(), options.ubatch),
      stop(options.stop) {
  make_room_for_batches(*this, options.prefill_offload);
  if (const auto layers = mirrored_states(*this); !layers.empty())
    state_mirror.emplace(device.stream, *model.model, states, host->side.layers().states(), layers);
}

int State::attention_groups() const {
  if (!spec().mla) return spec().kv_heads;
  return (spec().heads + kLatentHeads - 1) / kLatentHeads;
}

}  // namespace rigcast::engine::cuda
