#pragma once
// Keys and values of layers that a GPU computes in prompts and the host while decoding. Both keep
// them; before its turn each gets what the other has added.

#include <utility>
#include <vector>

#include "engine/backends/cuda/kv/device_cache.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/kv/kv_cache.hpp"
#include "engine/run/recorder.hpp"

namespace rigcast::engine::cuda {

/// A layer's part of a block has the same layout on both sides and goes over whole: where it holds
/// tokens that the other side has already, they are the same.
class Handover {
 public:
  /// Both caches keep these layers. The GPU's is written and read on `stream`.
  Handover(const Stream& stream, const DeviceCache& gpu, const KvCache& host,
           std::vector<int> layers);

  /// The side has all tokens below `cached` from here on, and room for them. Waits for the copies,
  /// and so for all work before. Throws CudaFailure; then each side has what it had.
  void to_gpu(TokenCount cached, Recorder* recorder);
  void to_host(TokenCount cached, Recorder* recorder);

  /// The side has added tokens up to `cached`, after all that were there.
  void gpu_added(TokenCount cached) { on_gpu_ = cached; }
  void host_added(TokenCount cached) { on_host_ = cached; }
  void truncate(TokenCount tokens);

  MovedBytes take_bytes() { return std::exchange(sent_, {}); }

 private:
  /// Blocks that hold tokens [first, last), in every layer. Gives their bytes.
  double copy(TokenCount first, TokenCount last, cudaMemcpyKind way) const;
  /// All tokens below `cached` to the side that has `has`, that way. Gives their bytes.
  double bring(TokenCount& has, TokenCount cached, cudaMemcpyKind way, Recorder* recorder) const;

  const Stream& stream_;
  const DeviceCache& gpu_;
  const KvCache& host_;
  std::vector<int> layers_;
  TokenCount on_gpu_ = 0, on_host_ = 0;  // tokens that a side has
  MovedBytes sent_;
};

}  // namespace rigcast::engine::cuda
