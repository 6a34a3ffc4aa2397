#pragma once
// Prefill offload: the choice whether host or GPU computes a prompt's batch with weights that the
// host keeps, and the copies of these weights.

#include <memory>
#include <vector>

#include "engine/backends/cuda/host_offload/host_offload.cuh"
#include "engine/backends/cuda/kv/device_cache.cuh"
#include "engine/backends/cuda/kv/staged_cache.cuh"
#include "engine/backends/cuda/weight_streaming/expert_stream.cuh"
#include "engine/backends/cuda/weight_streaming/layer_stream.cuh"
#include "engine/backends/cuda/weights/placed_model.cuh"
#include "engine/placement/prefill_offload.hpp"

namespace rigcast::engine::cuda {

/// Parts of the host's that the GPU computes in a batch, with weights that are copied to it.
struct PrefillOffload {
  bool layers = false;   // all offloadable layers
  bool experts = false;  // experts of layers that the GPU computes
};

class StreamedWeights {
 public:
  /// Kernels are queued on `stream`; batches have up to `ubatch` tokens; `cache` is the GPU's;
  /// `host` is nullptr if it computes nothing. All of them outlive this object. Allocates nothing
  /// before allocate_memory().
  StreamedWeights(PlacedModel& model, Vram& vram, const Stream& stream, const DeviceCache& cache,
                  HostOffload* host, int ubatch)
      : model_(model), vram_(vram), stream_(stream), cache_(cache), host_(host), ubatch_(ubatch) {}

  /// Allocates memory for streamed weights, in place of any earlier allocation, and measures both
  /// devices if the policy depends on which one is faster. Throws ShortOfMemory; then
  /// PrefillOffloadPolicy::kHost may still fit.
  void allocate_memory(PrefillOffloadPolicy by);
  /// Releases the GPU's memory for offloaded layers, and lets the host compute all batches from now
  /// on. Returns false if nothing is offloaded, or if the policy demands it. Captured graphs of
  /// tokens become invalid.
  bool disable_prefill_offload();

  /// The stream of layers that are copied for every token; nullptr: there are none.
  LayerStream* of_tokens() const {
    return layers_ && !layers_->of_tokens().empty() ? layers_.get() : nullptr;
  }
  /// Bytes that are copied for a layer of the model.
  double layer_bytes(int layer) const { return layers_->bytes(layer); }

  // For a batch of `tokens` after `cached`; keys and values of offloaded layers go to the host's
  // cache:
  PrefillOffload choose_prefill_offload(TokenCount cached, TokenCount tokens) const;
  /// True if the layer's weights are copied in the batch.
  bool is_streamed_in(const PrefillOffload& offload, int layer) const;
  /// True if the weights of the layer's experts are copied in the batch.
  bool streams_in_experts(const PrefillOffload& offload, int layer) const;
  /// Begins copies for the first layers.
  void begin(const PrefillOffload& offload, TokenCount cached, TokenCount tokens);
  /// Makes the layer's weights and cache available to work that is queued from now on.
  void stream_in_layer(TokenCount cached, int layer);
  void end(const PrefillOffload& offload);

  /// The cache of offloaded layers that have one, and the stream of experts; for a batch whose
  /// PrefillOffload has them.
  StagedCache& cache() { return *staged_; }
  /// Makes room in cache(), if there is one, for positions below `tokens`. Throws ShortOfMemory.
  void reserve_cache(TokenCount tokens);
  /// Bytes that cache() may still take of the GPU, for prompts of up to `tokens`; 0: there is no
  /// such cache.
  double staged_bytes_to_reserve(TokenCount tokens) const {
    return staged_ ? staged_->bytes_to_reserve(tokens) : 0;
  }
  ExpertStream& experts() { return *experts_; }
  bool copies_experts() const { return experts_ != nullptr; }
  /// Bytes that went over the link for caches and experts since the last call.
  MovedBytes take_bytes();

 private:
  const ModelSpec& spec() const { return model_.spec(); }
  void drop();
  std::vector<int> layers_with_offloadable_experts() const;
  OffloadRates measure(const std::vector<int>& offloadable, const std::vector<int>& experts);
  OffloadCost offload_cost_of_layers(TokenCount cached, TokenCount tokens) const;
  OffloadCost offload_cost_of_experts(TokenCount tokens) const;
  bool is_staged(int layer) const;
  void fetch_cache(TokenCount cached, int first);

  PlacedModel& model_;
  Vram& vram_;
  const Stream& stream_;
  const DeviceCache& cache_;
  HostOffload* host_;
  int ubatch_;
  std::unique_ptr<LayerStream> layers_;    // nullptr: no layer is streamed
  std::unique_ptr<ExpertStream> experts_;  // nullptr: no experts are streamed
  std::unique_ptr<StagedCache> staged_;    // nullptr: no layer with a cache is offloadable
  bool offloads_layers_ = false;           // some are
  PrefillOffloadPolicy by_ = PrefillOffloadPolicy::kFaster;
  OffloadRates rates_;
};

}  // namespace rigcast::engine::cuda
