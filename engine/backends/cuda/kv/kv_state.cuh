#pragma once
// A GPU's cache in the course of a step: what of it has left the GPU, how that is split between GPU
// and host, and when it has to be back.

#include <optional>
#include <vector>

#include "engine/backends/cuda/kv/cold_sharing.hpp"
#include "engine/backends/cuda/kv/device_cache.cuh"
#include "engine/cuda/copy_marks.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/run/recorder.hpp"

namespace rigcast::engine::cuda {

/// Where nothing ever leaves the GPU, all that is about cold blocks does nothing. Layers of a step
/// are named by their index among those that the cache keeps.
class KvState {
 public:
  /// Of these layers of the model. `shares_cold`: the host attends to some of the cold blocks.
  /// Throws MachineError.
  KvState(Vram& vram, const Stream& stream, const ModelSpec& spec, const CacheShape& shape,
          const std::vector<int>& layers, const ColdSharing& sharing, bool shares_cold)
      : stream_(stream),
        cache_(vram, stream, spec, shape, layers),
        sharing_(sharing),
        shares_cold_(shares_cold) {}

  DeviceCache& cache() { return cache_; }
  const DeviceCache& cache() const { return cache_; }

  /// The first tokens of the context that the host attends to while decoding.
  TokenCount cold_of_host() const { return host_blocks_ * cache_.block_tokens(); }
  /// Where they are; nullptr: nothing ever leaves the GPU.
  const KvCache* on_host() const { return cache_.cold() ? &cache_.cold()->host() : nullptr; }
  /// Splits the cold blocks anew where some became cold or came back, or where it has become known
  /// how long a layer takes. Before a token's step.
  void split_cold();
  /// A layer of the last token took `period` from one question to the host to the next.
  void observe(Seconds period);
  /// Changes whenever what was recorded of a token no longer holds.
  int generation() const { return cache_.generation() + splits_changed_; }

  // Calls 4 to 7 of the protocol in cold_blocks.cuh.
  void prepare_token();
  void begin_token(CopyMarks* marks);
  void begin_batch(CopyMarks* marks);
  /// True: attention must be launched Start::kAfter, and its cached tokens are not settled.
  bool await(int layer);
  void done(int layer);
  void end_token();

  /// What the last step brought back of the cold blocks.
  double step_bytes() const { return cache_.cold() ? cache_.cold()->step_bytes() : 0; }
  /// What went over the link between steps since the last call.
  MovedBytes take_bytes();

 private:
  Bytes cold_block() const { return Bytes{double(cache_.cold()->host().layer_bytes())}; }

  const Stream& stream_;
  DeviceCache cache_;
  ColdSharing sharing_;
  bool shares_cold_;
  TokenCount host_blocks_ = 0;  // of the cold ones, the oldest
  int splits_changed_ = 0;
  std::optional<int> split_at_;  // the cache's generation that host_blocks_ is for
};

}  // namespace rigcast::engine::cuda
