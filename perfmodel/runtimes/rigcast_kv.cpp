#include "perfmodel/runtimes/rigcast_kv.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/scenario/engine_sizes.hpp"
#include "core/serving/window_pool.hpp"
#include "perfmodel/cost/cpu_cost.hpp"
#include "perfmodel/cost/kv_fetch.hpp"
#include "perfmodel/runtimes/rigcast_policy.hpp"

namespace rigcast {
namespace {

constexpr TokenCount kMaxTokens = 1'000'000'000'000;  // stands for all tokens, where no cache is
                                                      // evicted

// Tokens in the cache before the first output token is decoded.
TokenCount prompt_end(const Sequence& sequence) { return sequence.depth + sequence.prompt; }

bool converts_type(const MemoryContext& s) {
  const KvTypes cold = s.kv.cold_types();
  return cold.k != s.kv.types.k || cold.v != s.kv.types.v;
}

// True if blocks of the cache are evicted from the GPU.
bool evicts_kv(const MemoryContext& s) {
  return evicts(s.kv.policy) || (s.kv.policy == KvPolicy::kStream && !s.rig.unified());
}

// The device in whose memory attention finds the layer's newest tokens.
DeviceIndex cache_device(const MemoryContext& s, const Placement& p, int layer) {
  const LayerPlacement& l = p.layers[std::size_t(layer)];
  return s.rig.unified() ? l.kv : l.decode_cache_on;
}

// The part of the cache on one GPU. A block covers all of the GPU's layers.
struct GpuCache {
  int layers = 0;
  double block = 0;       // bytes, in the cache's types
  double cold_block = 0;  // bytes of an evicted block, in the type on the host
  double cold_layer = 0;  // bytes of an evicted block's largest layer
  double layer = 0;       // `cold_layer` in the cache's types
};

GpuCache gpu_cache(const MemoryContext& s, const Placement& p, DeviceIndex gpu) {
  GpuCache c;
  for (int l = 0; l < s.model.layers; ++l) {
    if (cache_device(s, p, l) != gpu || !s.model.has_kv(l)) continue;
    const double hot = kv_block_bytes(s, l, s.kv.types),
                 cold = kv_block_bytes(s, l, s.kv.cold_types());
    ++c.layers;
    c.block += hot;
    c.cold_block += cold;
    c.layer = std::max(c.layer, hot);
    c.cold_layer = std::max(c.cold_layer, cold);
  }
  return c;
}

// Blocks that a layer with a window keeps in a device's memory, as a ring; 0: all. Mirrors
// window_blocks_of (engine/backends/cuda/make_cuda_executor.cu) and make_host_offload
// (engine/backends/cuda/forward/state.cu).
TokenCount window_blocks(const MemoryContext& s, const Placement& p, DeviceIndex device) {
  const bool serves = s.has_load && s.scheduler;
  const bool twice = p.host_decodes() && std::ranges::any_of(p.layers, [](const LayerPlacement& l) {
                       return l.weights != kHost;
                     });
  if (serves || evicts_kv(s) || twice) return 0;
  for (int l = 0; device == kHost && l < s.model.layers; ++l)
    if (p.offloadable(l)) return 0;
  return window_ring_blocks(s.model, s.settings.ubatch, s.kv.block_tokens);
}

// Kernels find a sequence's blocks through lists of pointers: one per layer where blocks are
// evicted, else one for all layers, and one for those that are rings. Mirrors the constructor of
// DeviceCache (engine/backends/cuda/kv/device_cache.cu).
double list_bytes(const MemoryContext& s, const GpuCache& c, const Batch& batch,
                  bool rings = false) {
  const int lists = evicts_kv(s) ? std::max(1, c.layers) : rings ? 2 : 1;
  return double(batch.sequences.size()) * lists * double(kMaxKvBlocks) * sizeof(void*);
}

// GPU memory of the ring buffer and the conversion of evicted blocks, on their way out and back.
// The engine sizes its ring by the same kv_ring.
double ring_bytes(const MemoryContext& s, const GpuCache& c, TokenCount cold) {
  const KvRing ring = kv_ring(cold, c.layers, std::int64_t(c.cold_layer));
  const double slots = double(ring.blocks) * ring.layers() * c.cold_layer;
  return slots + (converts_type(s) ? double(ring.blocks) * c.layer + c.cold_block : 0);
}

// The number of blocks that the sequence's longest batch writes.
TokenCount blocks_of_batch(const MemoryContext& s, const Sequence& sequence) {
  const TokenCount longest = std::max(sequence.depth, sequence.prompt);
  return kv_blocks(s, std::clamp<TokenCount>(longest, 1, s.settings.ubatch));
}

// The most blocks that two successive steps occupy, from the block in which the first begins, of
// the steps up to the sequence's length that write to new blocks: none of these blocks can leave
// before the second step has ended. Mirrors two_step_blocks (engine/kv/kv_eviction.cpp).
TokenCount two_step_blocks(const MemoryContext& s, const Sequence& sequence) {
  TokenCount most = 2, begin = 0, blocks = 0;  // two of single tokens
  const auto add = [&](TokenCount from, TokenCount to) {
    const TokenCount wanted = kv_blocks(s, std::min(to, sequence.length()));
    if (wanted == blocks || from >= sequence.length()) return;
    most = std::max(most, wanted - begin / s.kv.block_tokens);
    begin = from;
    blocks = wanted;
  };
  TokenCount from = 0;
  for (const TokenCount end : {sequence.depth, prompt_end(sequence)})
    while (from < end) {
      const TokenCount to = std::min<TokenCount>(end, from + s.settings.ubatch);
      add(from, to);
      from = to;
    }
  const TokenCount next = blocks * s.kv.block_tokens;
  add(next, next + 1);
  return most;
}

// Blocks of a sequence, however many of them stay on the GPU.
struct SequenceBlocks {
  TokenCount all = 0, full = 0;
  TokenCount at_prompt_end = 0;
  TokenCount of_batch = 0, of_two_steps = 0;
};

std::vector<SequenceBlocks> sequence_blocks(const MemoryContext& s, const Batch& batch) {
  std::vector<SequenceBlocks> out;
  for (const Sequence& sequence : batch.sequences)
    out.push_back({kv_blocks(s, sequence.length()), sequence.length() / s.kv.block_tokens,
                   kv_blocks(s, prompt_end(sequence)), blocks_of_batch(s, sequence),
                   two_step_blocks(s, sequence)});
  return out;
}

struct BlockCounts {
  TokenCount on_gpu = 0, cold = 0;
  TokenCount on_host = 0;  // cold ones, in whole pieces
};

// Blocks on the GPU, and evicted ones, if `hot` blocks of every sequence stay. All other full
// blocks are evicted. Batches need most space while there are any; then each token writes one
// block. Mirrors max_held_blocks and gpu_bytes (engine/kv/kv_eviction.cpp).
BlockCounts block_counts(const std::vector<SequenceBlocks>& sequences, TokenCount hot) {
  BlockCounts sum;
  for (const SequenceBlocks& b : sequences) {
    const TokenCount with_batch = std::min(b.at_prompt_end, hot + b.of_batch);
    const TokenCount held = std::max({b.of_two_steps, with_batch, hot + 1});
    const auto cold = std::clamp<TokenCount>(b.all - hot, 0, b.full);
    sum.on_gpu += std::min(b.all, held);
    sum.cold += cold;
    sum.on_host += read_cells(cold, kColdPieceBlocks);
  }
  return sum;
}

// Blocks of all sequences when the step has ended, or at the prompt's end if that is earlier.
TokenCount all_blocks(const MemoryContext& s, const Batch& batch, bool of_prompts = false) {
  TokenCount sum = 0;
  for (const Sequence& sequence : batch.sequences)
    sum += kv_blocks(
        s, of_prompts ? std::min(sequence.length(), prompt_end(sequence)) : sequence.length());
  return sum;
}

// Tokens of the pool of layers with a window, if that of the other layers, which has so many, is
// larger; 0: they have none. Mirrors keeps_windows_apart
// (engine/backends/cuda/batch/pool_size.cpp).
TokenCount tokens_of_windows(const MemoryContext& s, const Placement& p, TokenCount of_others) {
  if (!s.has_load || !s.scheduler) return 0;
  const TokenCount tokens =
      s.scheduler->block_tokens *
      window_pool_blocks({s.model, *s.scheduler, p, s.kv.policy, !s.rig.gpus.empty()});
  return tokens < of_others ? tokens : 0;
}

TokenCount tokens_of_batch(const Batch& batch) {
  TokenCount sum = 0;
  for (const Sequence& sequence : batch.sequences) sum += sequence.length();
  return sum;
}

// Those of one layer on a device: a ring has no more than `ring` of each sequence.
TokenCount blocks_of_layer(const MemoryContext& s, const Placement& p, const Batch& batch,
                           int layer, DeviceIndex device) {
  const TokenCount ring = window_blocks(s, p, device);
  if (ring == 0 || s.model.sees_all_tokens(layer)) return all_blocks(s, batch);
  TokenCount sum = 0;
  for (const Sequence& sequence : batch.sequences)
    sum += std::min(kv_blocks(s, sequence.length()), ring);
  return sum;
}

// The largest number of blocks that may stay on a GPU so that memory is below the threshold until
// the batch's step has ended. Mirrors hot_blocks (engine/kv/kv_eviction.cpp) and
// DeviceCache::choose_hot_blocks (engine/backends/cuda/kv/device_cache.cu).
TokenCount hot_blocks(const MemoryContext& s, const GpuCache& c, const DeviceMemory& gpu,
                      const Batch& batch) {
  const Bytes others = s.rig.vram_reserved.value;
  const double usable = (gpu.capacity - others).value * s.kv.threshold;
  const double room = usable - (gpu.needed() - others).value;
  const auto most = TokenCount(std::clamp((room - list_bytes(s, c, batch)) / c.block, 0.0, 1e9));
  if (most >= all_blocks(s, batch)) return most;
  const std::vector<SequenceBlocks> sequences = sequence_blocks(s, batch);
  const auto bytes = [&](TokenCount hot) {
    const BlockCounts counts = block_counts(sequences, resident_share(hot, batch));
    return double(counts.on_gpu) * c.block + list_bytes(s, c, batch) +
           ring_bytes(s, c, counts.cold);
  };
  TokenCount hot = most;
  while (hot > 0 && bytes(hot) > room) --hot;
  return hot;
}

// Resident tokens: the minimum over all GPUs.
TokenCount resident_tokens(const MemoryContext& s, const Placement& p, const Batch& batch,
                           const MemoryPlan& plan) {
  TokenCount fewest = kMaxTokens;
  // The limit is planned for the longest context, whichever position the plan is for.
  Batch longest = batch;
  for (Sequence& sequence : longest.sequences)
    sequence.cached = std::max(sequence.cached, s.context - sequence.tokens);
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    const GpuCache c = gpu_cache(s, p, DeviceIndex(g));
    if (c.layers == 0) continue;
    fewest = std::min(fewest, hot_blocks(s, c, plan.devices[g], longest) * s.kv.block_tokens);
  }
  return fewest;
}

// Adds the cache of a GPU whose blocks are evicted beyond `hot` tokens of each sequence.
void add_evicted_kv(const MemoryContext& s, const GpuCache& c, const Batch& batch, TokenCount hot,
                    DeviceMemory& gpu, DeviceMemory& host) {
  if (c.layers == 0) return;
  const BlockCounts counts = block_counts(sequence_blocks(s, batch), kv_blocks(s, hot));
  gpu.kv += Bytes{double(counts.on_gpu) * c.block + list_bytes(s, c, batch)};
  gpu.staging += Bytes{ring_bytes(s, c, counts.cold)};
  host.kv += Bytes{double(counts.on_host) * c.cold_block};
}

// Of VRAM, a pool leaves so much. Mirrors room_of (engine/backends/cuda/batch/
// cuda_batch_executor.cu).
constexpr double kLeftBytes = 512 << 20;

// The pool of a server without GPUs, from the least of its tokens to the most: half of what the
// weights leave of RAM, as batch_options has it (cli/serve/served_cache.cpp).
Batch pool_in_ram(const MemoryContext& s, const Placement& p, const MemoryPlan& plan) {
  constexpr double kShareOfFree = 0.5;
  const DeviceMemory& host = plan.devices.back();
  const Bytes free = host.capacity - host.overhead - Bytes{double(s.tensors.bytes())};
  const double room = kShareOfFree * std::max(free.value, 0.0);
  const TokenCount tokens = s.kv.block_tokens;
  double all = 0, window = 0;  // of a block: layers that see all tokens, and the others
  for (int l = 0; l < s.model.layers; ++l)
    (s.model.sees_all_tokens(l) ? all : window) += kv_block_bytes(s, l, s.kv.types);
  auto blocks = TokenCount(room / std::max(all + window, 1.0));
  // As many blocks of windows as they need, if they are fewer.
  if (const TokenCount apart = tokens_of_windows(s, p, blocks * tokens); apart > 0 && all > 0)
    blocks = TokenCount((room - double(apart) / double(tokens) * window) / all);
  return {std::clamp(blocks * tokens, s.pool.least, s.pool.most), 0};
}

// A server's pool of blocks, as far as one GPU attends to them.
struct GpuPool {
  TokenCount blocks = 0;
  int layers = 0;
  double block = 0;   // bytes
  double layer = 0;   // of a block's largest layer
  double window = 0;  // of a block's layers with a window
};

GpuPool gpu_pool(const MemoryContext& s, const Placement& p, DeviceIndex gpu) {
  const TokenCount tokens = s.scheduler->block_tokens;
  GpuPool pool;
  pool.blocks = s.pool.most / tokens;
  for (int l = 0; l < s.model.layers; ++l) {
    if (cache_device(s, p, l) != gpu || !s.model.has_kv(l)) continue;
    const double bytes = double(tokens) * kv_bytes_per_token(s.model, l, s.kv.types);
    ++pool.layers;
    pool.block += bytes;
    pool.layer = std::max(pool.layer, bytes);
    if (!s.model.sees_all_tokens(l)) pool.window += bytes;
  }
  return pool;
}

// The pool that the GPUs have room for beside all else, from the least of its tokens to the most.
// Mirrors pool_within (engine/backends/cuda/batch/pool_size.cpp).
Batch pool_in_vram(const MemoryContext& s, const Placement& p, const MemoryPlan& plan) {
  const TokenCount tokens = s.scheduler->block_tokens;
  TokenCount blocks = s.pool.most / tokens;
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    const GpuPool pool = gpu_pool(s, p, DeviceIndex(g));
    if (pool.layers == 0) continue;
    const double room = plan.devices[g].free().value - kLeftBytes;
    const auto together = TokenCount(std::max(0.0, room / pool.block - 1));
    const TokenCount windows =
        tokens_of_windows(s, p, std::min(blocks, together) * tokens) / tokens;
    const auto apart = TokenCount((room - double(windows + 1) * pool.window) /
                                      (pool.block - (windows > 0 ? pool.window : 0)) -
                                  1);
    blocks = std::min(blocks, windows > 0 ? apart : together);
  }
  return {std::max(s.pool.least, blocks * tokens), 0};
}

// Bytes in VRAM: blocks, one more for rows that only fill a step up, and the ring through which
// those in RAM pass. Mirrors gpu_bytes and cold_ring_bytes
// (engine/backends/cuda/batch/pool_size.cpp).
double pool_ring_bytes(const GpuPool& pool, TokenCount cold) {
  return cold > 0 ? (2 * double(cold) + pool.layers) * pool.layer : 0;
}
double pool_bytes(const GpuPool& pool, TokenCount on_gpu) {
  return double(on_gpu + 1) * pool.block + pool_ring_bytes(pool, pool.blocks - on_gpu);
}

// The most blocks of a pool that VRAM has room for.
TokenCount pool_blocks_on_gpu(const MemoryContext& s, const GpuPool& pool,
                              const DeviceMemory& gpu) {
  const double usable = (gpu.capacity - gpu.overhead).value;
  const double room = gpu.free().value - std::max(kLeftBytes, (1 - s.kv.threshold) * usable);
  if (pool_bytes(pool, pool.blocks) <= room) return pool.blocks;
  const double saved = pool.block - 2 * pool.layer;
  if (saved <= 0) return 0;
  return TokenCount(std::clamp((room - pool_bytes(pool, 0)) / saved, 0.0, double(pool.blocks - 1)));
}

// Adds a pool whose blocks are in RAM, or as far as VRAM has no room for them.
void add_cold_pool(const MemoryContext& s, const Placement& p, MemoryPlan& plan) {
  plan.blocks_stay = true;
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    const GpuPool pool = gpu_pool(s, p, DeviceIndex(g));
    if (pool.layers == 0) continue;
    DeviceMemory& gpu = plan.devices[g];
    gpu.kv += Bytes{double(kMaxKvBlocks) * sizeof(void*)};  // a list of one sequence's blocks
    TokenCount on_gpu = 0;
    if (s.kv.policy != KvPolicy::kStream) {
      on_gpu = pool_blocks_on_gpu(s, pool, gpu);
      plan.resident_tokens =
          std::min(plan.resident_tokens.value_or(kMaxTokens), on_gpu * s.scheduler->block_tokens);
    }
    gpu.kv += Bytes{double(on_gpu + 1) * pool.block};
    gpu.staging += Bytes{pool_ring_bytes(pool, pool.blocks - on_gpu)};
    plan.devices.back().kv += Bytes{double(pool.blocks - on_gpu) * pool.block};
  }
}

// The buffer with which the host's share of cold blocks is measured is freed before there are cold
// blocks.
void add_timed_cache(DeviceMemory& host) {
  host.staging += std::max(Bytes{}, Bytes{double(kTimedCacheBytes)} - host.kv);
}

// Adds caches that are never evicted, including all caches of the host.
void add_resident_kv(const MemoryContext& s, const Placement& p, const Batch& batch,
                     MemoryPlan& plan) {
  const TokenCount windows = tokens_of_windows(s, p, tokens_of_batch(batch));
  for (int l = 0; l < s.model.layers; ++l) {
    const DeviceIndex at = cache_device(s, p, l);
    const double block = kv_block_bytes(s, l, s.kv.types);
    double bytes = double(blocks_of_layer(s, p, batch, l, at)) * block;
    if (windows > 0 && !s.model.sees_all_tokens(l))
      bytes = double(windows) * kv_bytes_per_token(s.model, l, s.kv.types);
    if (at == kHost || !evicts_kv(s))
      (at == kHost ? plan.devices.back() : plan.devices[std::size_t(at)]).kv += Bytes{bytes};
    // Where the host decodes, a GPU keeps the KV that prompts have produced.
    const DeviceIndex gpu = p.layers[std::size_t(l)].weights;
    if (p.host_decodes() && gpu != kHost && !s.rig.unified())
      plan.devices[std::size_t(gpu)].kv += Bytes{double(all_blocks(s, batch, true)) * block};
  }
}

// Adds states of recurrent layers: one of each sequence of a step and checkpoints of them, or of a
// single sequence one more that is kept. Both devices have those of the GPU's layers where the host
// decodes, and those of layers that a GPU may compute for prompts. Mirrors
// HostPlacement::layers_with_state (engine/placement/host_placement.cpp) and mirrored_states
// (engine/backends/cuda/forward/state.cu).
void add_states(const MemoryContext& s, const Placement& p, MemoryPlan& plan) {
  const bool serves = s.has_load && s.scheduler;
  const int count = serves
                        ? server_states(s.model, s.scheduler->sequences, s.scheduler->prefix_cache)
                        : kStatesOfOneSequence;
  for (int l = 0; l < s.model.layers; ++l) {
    const Bytes bytes{count * state_bytes(s.model, l)};
    const LayerPlacement& at = p.layers[std::size_t(l)];
    const bool decodes = p.host_decodes() && at.weights != kHost;
    const bool offloadable = !serves && !s.rig.unified() && p.offloadable(l);
    const DeviceIndex gpu = decodes ? at.weights : offloadable ? at.prefill_on : at.decode_on;
    if (gpu != kHost) plan.devices[std::size_t(gpu)].kv += bytes;
    if (gpu == kHost || decodes || offloadable) plan.devices.back().kv += bytes;
  }
}

// Adds the buffers through which a GPU exchanges the caches of layers whose weights are copied for
// a prompt's batches: one layer is fetched while the other is used, of one sequence at a time.
// Mirrors StagedCache::reserve (engine/backends/cuda/kv/staged_cache.cu).
void add_staged_kv(const MemoryContext& s, const Placement& p, const Batch& batch,
                   MemoryPlan& plan) {
  if (s.rig.unified()) return;
  TokenCount longest = 0;
  for (const Sequence& sequence : batch.sequences)
    longest = std::max(longest, prompt_end(sequence));
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    double block = 0;
    for (int l = 0; l < s.model.layers; ++l)
      if (p.offloadable(l) && p.layers[std::size_t(l)].prefill_on == DeviceIndex(g))
        block = std::max(block, kv_block_bytes(s, l, s.kv.types));
    plan.devices[g].staging += Bytes{2 * double(kv_blocks(s, longest)) * block};
  }
}

// The tokens [from, to) of one step.
struct Tokens {
  TokenCount from = 0, to = 0;
};

// The previous step, back to the start of the context: batches up to the depth, then the prompt's
// batches, then single tokens.
Tokens step_before(const StepContext& s, const Sequence& sequence, TokenCount from) {
  if (from > prompt_end(sequence)) return {from - 1, from};
  const TokenCount begin = from > sequence.depth ? sequence.depth : 0;
  return {begin + (from - begin - 1) / s.settings.ubatch * s.settings.ubatch, from};
}

bool takes_blocks(const StepContext& s, const Tokens& step) {
  return kv_blocks(s, step.to) > kv_blocks(s, step.from);
}

// The last step, up to `step`, that allocated new blocks: only such a step evicts. Mirrors
// DeviceCache::reserve (engine/backends/cuda/kv/device_cache.cu).
Tokens taking_blocks(const StepContext& s, const Sequence& sequence, Tokens step) {
  const TokenCount decoded_from = prompt_end(sequence);
  while (step.from > 0 && !takes_blocks(s, step)) {
    const TokenCount block = (step.from - 1) / s.kv.block_tokens * s.kv.block_tokens;
    step = step_before(s, sequence,
                       step.from > decoded_from ? std::max(decoded_from, block) + 1 : step.from);
  }
  return step;
}

// Time of one token in a layer without attention over the cache, including the round trip in which
// the GPU waits for the host.
Seconds layer_time_without_kv(const StepContext& s, const Placement& p, int l, DeviceIndex device) {
  StepOp op;
  op.device = device;
  Seconds sum = s.runtime.decode.host_roundtrip.value;
  const auto take = [&](const OpTraffic& t, Launches launches) {
    op.cost = operation_cost(s, device, t, 1, launches);
    sum += time_alone(s, op);
  };
  const bool moe = s.model.is_moe_layer(l), recurrent = s.model.has_recurrent_mixer(l);
  const bool experts = p.layers[std::size_t(l)].decode_experts_on == device;
  take(projection_traffic(s.model, s.tensors, l, 1),
       recurrent ? Launches::kRecurrent : Launches::kAttention);
  if (s.model.has_ffn(l) && (moe || experts))
    take(ffn_traffic(s.model, s.tensors, l, 1), moe ? Launches::kMoePart : Launches::kFfn);
  if (moe && experts) take(experts_traffic(s.model, s.tensors, l, 1), Launches::kMoePart);
  return sum;
}

}  // namespace

double kv_block_bytes(const StepContext& s, int layer, KvTypes types) {
  return double(s.kv.block_tokens) * kv_bytes_per_token(s.model, layer, types);
}

TokenCount kv_blocks(const StepContext& s, TokenCount tokens) {
  return read_cells(tokens, s.kv.block_tokens) / s.kv.block_tokens;
}

void add_block_cache(const MemoryContext& s, const Placement& p, const Batch& sequences,
                     MemoryPlan& plan) {
  add_states(s, p, plan);
  const bool is_chosen = s.pool.most > s.pool.least;
  const Batch batch = !is_chosen           ? sequences
                      : s.rig.gpus.empty() ? pool_in_ram(s, p, plan)
                                           : pool_in_vram(s, p, plan);
  add_staged_kv(s, p, batch, plan);
  add_resident_kv(s, p, batch, plan);
  DeviceMemory& host = plan.devices.back();
  const auto gpus = plan.devices.size() - 1;
  if (!evicts_kv(s)) {
    for (std::size_t g = 0; g < gpus; ++g)
      if (plan.devices[g].activations.value > 0)
        plan.devices[g].kv +=
            Bytes{list_bytes(s, {}, batch,
                             window_blocks(s, p, DeviceIndex(g)) > 0 ||
                                 tokens_of_windows(s, p, tokens_of_batch(batch)) > 0)};
    return;
  }
  if (s.pool.least > 0 && !s.rig.unified()) return add_cold_pool(s, p, plan);
  TokenCount hot = 0;
  if (s.kv.policy != KvPolicy::kStream) {
    plan.resident_tokens = resident_tokens(s, p, batch, plan);
    hot =
        std::max(resident_share(*plan.resident_tokens, batch, s.kv.block_tokens), s.kv.hot_tokens);
  }
  for (std::size_t g = 0; g < gpus; ++g)
    add_evicted_kv(s, gpu_cache(s, p, DeviceIndex(g)), batch, hot, plan.devices[g], host);
  if (s.kv.policy == KvPolicy::kCombined && !s.rig.unified()) add_timed_cache(host);
}

TokenCount cold_block_tokens(const StepContext& s, TokenCount hot, const Sequence& sequence) {
  const Tokens last =
      taking_blocks(s, sequence, {sequence.cached, sequence.cached + sequence.tokens});
  if (last.from == 0) return 0;
  const Tokens before = taking_blocks(s, sequence, step_before(s, sequence, last.from));
  const TokenCount left =
      std::min(kv_blocks(s, before.to) - kv_blocks(s, hot), before.from / s.kv.block_tokens);
  return std::max<TokenCount>(0, left) * s.kv.block_tokens;
}

Seconds cold_block_copy_start(const StepContext& s, int layer, double bytes) {
  if (bytes <= 0) return {};
  const double block = kv_block_bytes(s, layer, s.kv.cold_types());
  const auto blocks = TokenCount(std::ceil(bytes / block));
  const KvRing ring = kv_ring(blocks, s.model.layers, std::int64_t(block));
  return s.runtime.decode.copy_start.value *
         (std::ceil(double(blocks) / kColdPieceBlocks) / ring.group_layers);
}

ColdSplit split_blocks(const StepContext& s, const Placement& p, int layer, DeviceIndex device,
                       double flops, double bytes) {
  ColdSplit split;
  if (s.kv.policy != KvPolicy::kCombined || device == kHost || bytes <= 0) return split;
  OpTraffic cold;
  cold.kv_read_bytes = bytes;
  cold.attention_flops = flops;
  cold.cache_format = s.kv.cold_types().k;
  const OpCost cpu = cpu_cost(s, cold, 1);
  const double on_host = time_alone(s, cpu, kHost).value;
  const BytesPerSecond link = s.rig.links[std::size_t(device)].h2d.value;
  const double over_link = (kv_fetch(s, bytes).equivalent_bytes / link).value;
  const Bytes ahead =
      link * (layer_time_without_kv(s, p, layer, device) + cpu_cost(s, {}, 1).overhead);
  const double shared = std::max(0.0, bytes - ahead.value) * over_link / (on_host + over_link);
  if (shared < kMinHostGain * bytes) return {};
  split.on_cpu = std::floor(shared / kv_block_bytes(s, layer, s.kv.cold_types())) *
                 kv_block_bytes(s, layer, s.kv.cold_types());
  if (split.on_cpu <= 0) return {};
  cold.kv_read_bytes = split.on_cpu;
  cold.attention_flops *= split.on_cpu / bytes;
  split.cost = cpu_cost(s, cold, 1);
  split.cost.overhead += s.runtime.decode.host_roundtrip.value;
  return split;
}

}  // namespace rigcast
