#pragma once
// The state of a GPU's KV cache during a step: which blocks are cold, how they are split between
// GPU and host, and when they must be back.

#include <optional>
#include <vector>

#include "engine/backends/cuda/kv/cold_ring.cuh"
#include "engine/backends/cuda/kv/cpu_gpu_kv_split.hpp"
#include "engine/backends/cuda/kv/device_cache.cuh"
#include "engine/cuda/copy_tracer.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/run/recorder.hpp"

namespace rigcast::engine::cuda {

/// If blocks are never evicted, all functions for cold blocks do nothing, unless there is a ring:
/// that of a pool of several sequences' blocks. Layers of a step are indexed among those that the
/// cache keeps.
class KvState {
 public:
  /// Makes the cache of these layers of the model. `splits_cold_kv`: the host attends to some of
  /// the cold blocks. Throws MachineError.
  KvState(Vram& vram, const Stream& stream, const ModelSpec& spec, const CacheShape& shape,
          const std::vector<int>& layers, const CpuGpuKvSplit& kv_split, bool splits_cold_kv)
      : stream_(stream),
        cache_(vram, stream, spec, shape, layers),
        kv_split_(kv_split),
        splits_cold_kv_(splits_cold_kv) {}

  DeviceCache& cache() { return cache_; }
  const DeviceCache& cache() const { return cache_; }

  /// The number of tokens, from the context's start, to which the host attends while decoding.
  TokenCount cold_of_host() const { return host_blocks_ * cache_.block_tokens(); }
  /// The host's cache of cold blocks; nullptr: blocks are never evicted.
  const KvCache* on_host() const { return cache_.cold() ? &cache_.cold()->host() : nullptr; }
  /// Updates the split of the cold blocks, if their number has changed or the time of a layer has
  /// become known. Call before a token's step.
  void split_cold();
  /// Records the time of a layer in the last token, from one message to the host to the next.
  void observe(Seconds period);
  /// A counter that changes when captured graphs of a token become invalid.
  int generation() const { return cache_.generation() + splits_changed_; }

  /// Steps bring cold blocks of a pool through the ring, which outlives their use. Not together
  /// with eviction.
  void use(ColdRing& ring);

  // Calls 4 to 7 of the protocol in cold_blocks.cuh, or 2 to 5 of that in cold_ring.cuh.
  void prepare_token();
  void begin_token(CopyTracer* marks);
  void begin_batch(CopyTracer* marks);
  /// Begins a step of several sequences, which end_sequences() ends.
  void begin_sequences(CopyTracer* marks);
  /// True: attention must be launched with Start::kAfter, because its cached tokens may still be on
  /// their way.
  bool await(int layer);
  void done(int layer);
  void end_token();
  void end_sequences();

  /// Bytes of cold blocks that the last step copied back.
  double step_bytes() const { return cache_.cold() ? cache_.cold()->step_bytes() : 0; }
  /// Bytes that went over the link between steps since the last call.
  MovedBytes take_bytes();

 private:
  Bytes cold_block() const { return Bytes{double(cache_.cold()->host().layer_bytes())}; }

  const Stream& stream_;
  DeviceCache cache_;
  CpuGpuKvSplit kv_split_;
  bool splits_cold_kv_;
  ColdRing* ring_ = nullptr;
  TokenCount host_blocks_ = 0;  // the oldest cold blocks, to which the host attends
  int splits_changed_ = 0;
  std::optional<int> split_at_;  // the cache's generation to which host_blocks_ belongs
};

}  // namespace rigcast::engine::cuda
