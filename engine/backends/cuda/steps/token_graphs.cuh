#pragma once
// Captured graphs of a token's kernels, each launched by a single call.

#include <compare>
#include <functional>
#include <map>
#include <optional>

#include "engine/backends/cuda/forward/decode.cuh"
#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine::cuda {

class TokenGraphs {
 public:
  /// Values on which a token's kernels depend, other than data on the GPU.
  struct Key {
    int splits = 0;
    SamplingMode choice = SamplingMode::kGreedy;
    int slot = 0;  // the slot with the first streamed layer
    auto operator<=>(const Key&) const = default;
  };

  /// Launches the graph of the work that `queue` puts on the stream. The graph is captured when a
  /// key is first used, and again when `generation`, which counts changes of the captured work,
  /// differs. Throws CudaFailure.
  void launch(const Stream& stream, const Key& key, int generation,
              const std::function<void()>& queue);
  /// Discards all graphs.
  void clear() { graphs_.clear(); }

 private:
  struct TokenGraph {
    std::optional<RecordedGraph> graph;
    int generation = 0;
  };
  std::map<Key, TokenGraph> graphs_;
};

}  // namespace rigcast::engine::cuda
