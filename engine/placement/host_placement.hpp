#pragma once
// The parts of a model that the host keeps and computes beside a GPU. They are the same in prompts
// and while decoding, unless the host decodes alone.

#include <vector>

#include "core/model/model_spec.hpp"
#include "core/model/tensor_table.hpp"
#include "core/scenario/placement.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// A host operation within a token: the GPU sends a message and waits for the answer, unless it is
/// the token's last.
struct HostOp {
  enum class Kind {
    kLayers,   // layers [first, end), whole; hidden state in and out
    kCold,     // attention over cold blocks of layer `first`; q in, partial results out
    kCache,    // attention over the cache of layer `first`; [q | k | v] in, attention output out
    kExperts,  // experts of layer `first`; normed hidden state, ids and weights in, their sum out
    kHead,     // the head; hidden state in, no answer
  };
  Kind kind = Kind::kLayers;
  int first = 0, end = 0;

  bool operator==(const HostOp&) const = default;
};

class HostPlacement {
 public:
  HostPlacement() = default;  // none
  /// The host has all, and there is no GPU.
  static HostPlacement whole_model();
  /// `splits_cold_kv`: in layers whose cache the GPU attends to, the host attends to a share of the
  /// evicted blocks.
  HostPlacement(const ModelSpec& spec, const Placement& placement, bool splits_cold_kv = false);

  /// True if the host has the whole layer: its weights, its cache and its work.
  bool layer(int i) const { return part(i).layer; }
  /// True if the host has the cache of a layer that a GPU computes, and the attention over it.
  bool cache(int i) const { return part(i).cache; }
  /// True if the host has the routed experts of a layer that a GPU computes.
  bool experts(int i) const { return part(i).experts; }
  /// True if the host keeps the layer's weights and the GPU copies them for every token and every
  /// batch; its cache is where those of the GPU's other layers are.
  bool streamed(int i) const { return part(i).streamed; }
  /// True if the GPU copies the experts of a streamed layer with it.
  bool streams_experts(int i) const { return streamed(i) && !experts(i); }
  /// True if the GPU may compute the host layer for a prompt's batch, with copied weights (prefill
  /// offload). Its keys and values, or its state, are copied to the GPU and back.
  bool offloadable(int i) const { return part(i).offloadable; }
  /// True if the host computes the layer's experts for a token, with their layer or alone.
  bool computes_experts(int i) const { return experts(i) || (layer(i) && part(i).moe); }
  /// True if these experts may be computed by the GPU for a batch.
  bool experts_offloadable(int i) const { return experts(i) || (offloadable(i) && part(i).moe); }
  bool head() const { return head_; }
  bool splits_cold_kv() const { return splits_cold_kv_; }
  /// True if the host looks up embeddings: the first layer is there, or all of them while decoding.
  bool embedding() const { return decodes_ || (!parts_.empty() && parts_.front().layer); }
  /// True if the host decodes alone. The GPU then only computes prompts, in the layers of which it
  /// has weights: layer(), cache() and experts() tell which it has not.
  bool decodes() const { return decodes_; }

  /// True for a matrix with which the host computes, from which it takes rows, or which it keeps
  /// for the GPU.
  bool has(TensorRole role, int layer) const;
  bool has(const Tensor& matrix) const { return has(matrix.role, matrix.layer); }
  bool computes() const { return !calls().empty(); }
  bool any() const { return computes() || !streamed_layers().empty(); }
  /// The first layer from `first` on that the GPU computes.
  int end_of_layers(int first) const;
  /// Layers whose keys and values the host keeps, and layers whose the GPU keeps.
  std::vector<int> cached_layers() const;
  std::vector<int> layers_cached_on_gpu() const { return layers_with_cache(false); }
  /// Recurrent layers whose states the host keeps, and layers whose the GPU keeps.
  std::vector<int> layers_with_state() const;
  std::vector<int> layers_with_state_on_gpu() const;
  std::vector<int> streamed_layers() const { return layers_that(&Part::streamed); }
  std::vector<int> offloadable_layers() const { return layers_that(&Part::offloadable); }
  /// Those of them that have keys and values, and those that are recurrent.
  std::vector<int> offloadable_caches() const;
  std::vector<int> offloadable_states() const;
  /// The host operations of one token that the GPU takes part in, in their order. Operations of
  /// kind kCold are skipped while no block is cold.
  std::vector<HostOp> calls() const;
  /// Bytes of the weights that the host keeps.
  std::int64_t weight_bytes(const Model& model) const;

 private:
  struct Part {
    bool layer = false, cache = false, experts = false, streamed = false, offloadable = false,
         moe = false, kv = true, attends = true, recurrent = false;
  };
  Part part(int i) const { return parts_.empty() ? Part{} : parts_[std::size_t(i)]; }
  std::vector<int> layers_with_cache(bool on_host) const;
  std::vector<int> layers_that(bool Part::*is) const;

  std::vector<Part> parts_;  // by layer
  bool tied_ = false;        // the embedding is the head's matrix as well
  bool head_ = false, splits_cold_kv_ = false, decodes_ = false;
};

}  // namespace rigcast::engine
