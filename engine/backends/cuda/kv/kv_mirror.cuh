#pragma once
// Keys and values of layers that a GPU computes in prompts and the host while decoding. Both have a
// copy; before one of them computes, it gets what the other has added.

#include <utility>
#include <vector>

#include "engine/backends/cuda/kv/device_cache.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/kv/kv_cache.hpp"
#include "engine/run/recorder.hpp"

namespace rigcast::engine::cuda {

/// A layer's part of a block has the same layout on both sides and is copied as a whole: tokens
/// that the other side already has are identical.
class KvMirror {
 public:
  /// Makes a mirror of these layers, which both caches keep. The GPU's cache is written and read on
  /// `stream`.
  KvMirror(const Stream& stream, const DeviceCache& gpu, const KvCache& host,
           std::vector<int> layers);

  /// Copies missing tokens, so that the GPU, or the host, has all tokens below `cached`; it must
  /// have room for them. Waits for the copies, and so for all earlier work. Throws CudaFailure;
  /// then neither side has changed.
  void to_gpu(TokenCount cached, Recorder* recorder);
  void to_host(TokenCount cached, Recorder* recorder);

  /// Records that the GPU, or the host, has added tokens up to `cached`, and had all before them.
  void gpu_added(TokenCount cached) { on_gpu_ = cached; }
  void host_added(TokenCount cached) { on_host_ = cached; }
  void truncate(TokenCount tokens);

  MovedBytes take_bytes() { return std::exchange(sent_, {}); }

 private:
  /// Copies the blocks that hold tokens [first, last), in every layer. Returns their bytes.
  double copy(TokenCount first, TokenCount last, cudaMemcpyKind direction) const;
  /// Copies tokens [has, cached) in the given direction, and updates `has`. Returns their bytes.
  double copy_missing(TokenCount& has, TokenCount cached, cudaMemcpyKind direction,
                      Recorder* recorder) const;

  const Stream& stream_;
  const DeviceCache& gpu_;
  const KvCache& host_;
  std::vector<int> layers_;
  TokenCount on_gpu_ = 0, on_host_ = 0;  // number of tokens on each side
  MovedBytes sent_;
};

}  // namespace rigcast::engine::cuda
