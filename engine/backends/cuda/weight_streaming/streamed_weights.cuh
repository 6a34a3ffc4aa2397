#pragma once
// Weights that the host keeps and a GPU computes with: whose turn a prompt's batch is, and the
// copies that bring them.

#include <memory>
#include <vector>

#include "engine/backends/cuda/host_offload/host_offload.cuh"
#include "engine/backends/cuda/kv/device_cache.cuh"
#include "engine/backends/cuda/kv/staged_cache.cuh"
#include "engine/backends/cuda/weight_streaming/expert_stream.cuh"
#include "engine/backends/cuda/weight_streaming/layer_stream.cuh"
#include "engine/backends/cuda/weights/placed_model.cuh"
#include "engine/placement/break_even.hpp"

namespace rigcast::engine::cuda {

/// Of a batch, those of the host's parts that the GPU takes with copied weights.
struct BatchWay {
  bool layers = false;   // all that are lent
  bool experts = false;  // of layers that the GPU computes
};

class StreamedWeights {
 public:
  /// For kernels on `stream`, and batches of up to `ubatch` tokens; `cache` is the GPU's; `host`:
  /// nullptr where it computes nothing. All outlive it. Takes no memory before take_memory().
  StreamedWeights(PlacedModel& model, Vram& vram, const Stream& stream, const DeviceCache& cache,
                  HostOffload* host, int ubatch)
      : model_(model), vram_(vram), stream_(stream), cache_(cache), host_(host), ubatch_(ubatch) {}

  /// Takes memory for weights that are copied, in place of what was taken before, and measures who
  /// is faster where that decides. Throws ShortOfMemory; then BatchesBy::kHost may still fit.
  void take_memory(BatchesBy by);
  /// Leaves all batches to the host from here on, for the GPU's memory that lending takes; false:
  /// nothing is lent, or that is insisted on. Graphs of tokens that were recorded before are void.
  bool stop_lending();

  /// Layers that come for every token; nullptr: none does.
  LayerStream* of_tokens() const {
    return layers_ && !layers_->of_tokens().empty() ? layers_.get() : nullptr;
  }
  /// What is copied for a layer of the model.
  double layer_bytes(int layer) const { return layers_->bytes(layer); }

  // In a batch of `tokens` after `cached`, whose lent layers' keys and values go to the host's
  // cache:
  BatchWay way_of_batch(TokenCount cached, TokenCount tokens) const;
  /// Whether the layer is one whose weights are copied in the batch.
  bool is_brought(const BatchWay& way, int layer) const;
  /// The same of a layer's experts.
  bool brings_experts(const BatchWay& way, int layer) const;
  /// Copies for the first layers begin.
  void begin(const BatchWay& way, TokenCount cached, TokenCount tokens);
  /// What is queued from here on finds the layer's weights and cache.
  void bring_layer(TokenCount cached, int layer);
  void end(const BatchWay& way);

  /// Keys and values of lent layers, and experts, of a batch whose way has them.
  StagedCache& cache() { return *staged_; }
  ExpertStream& experts() { return *experts_; }
  bool copies_experts() const { return experts_ != nullptr; }
  /// What went over the link for caches and experts since the last call of this.
  MovedBytes take_bytes();

 private:
  const ModelSpec& spec() const { return model_.spec(); }
  void drop();
  std::vector<int> layers_that_lend_experts() const;
  BatchRates measure(const std::vector<int>& lent, const std::vector<int>& experts);
  BatchNeeds needs_of_layers(TokenCount cached, TokenCount tokens) const;
  BatchNeeds needs_of_experts(TokenCount tokens) const;
  int next_lent(int first) const;
  void fetch_cache(TokenCount cached, int layer);

  PlacedModel& model_;
  Vram& vram_;
  const Stream& stream_;
  const DeviceCache& cache_;
  HostOffload* host_;
  int ubatch_;
  std::unique_ptr<LayerStream> layers_;    // nullptr: of no layer
  std::unique_ptr<ExpertStream> experts_;  // nullptr: of no layer's experts
  std::unique_ptr<StagedCache> staged_;    // nullptr: no layer is lent
  BatchesBy by_ = BatchesBy::kFaster;
  BatchRates rates_;
};

}  // namespace rigcast::engine::cuda
