#pragma once
// Recorded graphs of a token's kernels, each launched as one.

#include <compare>
#include <functional>
#include <map>
#include <optional>

#include "engine/backends/cuda/forward/decode.cuh"
#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine::cuda {

class TokenGraphs {
 public:
  /// What a token's kernels depend on beside what lies on the GPU.
  struct Key {
    int splits = 0;
    Choice choice = Choice::kLikeliest;
    int slot = 0;  // that the first layer of those that are streamed is in
    auto operator<=>(const Key&) const = default;
  };

  /// Launches what `queue` puts on the stream. It is recorded when a key comes first, and again
  /// when `generation`, which counts changes of what is recorded, is another. Throws CudaFailure.
  void launch(const Stream& stream, const Key& key, int generation,
              const std::function<void()>& queue);
  /// Nothing that was recorded holds any more.
  void clear() { graphs_.clear(); }

 private:
  struct TokenGraph {
    std::optional<RecordedGraph> graph;
    int generation = 0;
  };
  std::map<Key, TokenGraph> graphs_;
};

}  // namespace rigcast::engine::cuda
