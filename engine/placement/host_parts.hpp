#pragma once
// Which parts of a model the host keeps and computes where a GPU computes the others. They are the
// same in prompts and while decoding, unless the host decodes all by itself.

#include <vector>

#include "core/model/model_spec.hpp"
#include "core/model/tensor_table.hpp"
#include "core/scenario/placement.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// What the GPU asks the host for within a token, and waits for, unless it is the token's last.
struct HostCall {
  enum class Kind {
    kLayers,   // [first, end), whole; takes and gives the hidden state
    kCold,     // attention over old blocks of layer `first`; takes q, gives a part to be merged
    kCache,    // attention over the cache in layer `first`; takes [q | k | v], gives the mix
    kExperts,  // of layer `first`; takes the normed hidden state and who was chosen, gives their
               // sum
    kHead,     // takes the hidden state, gives nothing
  };
  Kind kind = Kind::kLayers;
  int first = 0, end = 0;

  bool operator==(const HostCall&) const = default;
};

class HostParts {
 public:
  HostParts() = default;  // none
  /// `shares_cold`: of layers whose cache the GPU attends to, the host attends to a share of the
  /// blocks that have left the GPU.
  HostParts(const ModelSpec& spec, const Placement& placement, bool shares_cold = false);

  /// A layer as a whole: its weights, its cache and its work.
  bool layer(int i) const { return part(i).layer; }
  /// Of a layer that a GPU computes: the cache, and the attention over it.
  bool cache(int i) const { return part(i).cache; }
  /// Of a layer that a GPU computes: the routed experts.
  bool experts(int i) const { return part(i).experts; }
  /// A layer whose weights the host keeps and the GPU copies for every token and every batch; its
  /// cache is as that of the GPU's other layers.
  bool streamed(int i) const { return part(i).streamed; }
  /// A layer of the host's whose turn at a prompt's batches the GPU may take, with copied weights.
  bool lent(int i) const { return part(i).lent; }
  /// Experts that the host computes for a token: with its layer, or alone.
  bool computes_experts(int i) const { return experts(i) || (layer(i) && part(i).moe); }
  /// The same where the GPU may compute those of a batch.
  bool lends_experts(int i) const { return experts(i) || (lent(i) && part(i).moe); }
  bool head() const { return head_; }
  bool shares_cold() const { return shares_cold_; }
  /// Hidden states begin on the host: the first layer is there, or all of them while decoding.
  bool embedding() const { return decodes_ || (!parts_.empty() && parts_.front().layer); }
  /// Tokens are decoded by the host alone. The GPU is for prompts then, with the layers that it has
  /// the weights of: layer(), cache() and experts() tell which it has not.
  bool decodes() const { return decodes_; }

  /// A matrix that the host computes with, takes rows from, or keeps for the GPU.
  bool has(TensorRole role, int layer) const;
  bool has(const Tensor& matrix) const { return has(matrix.role, matrix.layer); }
  bool computes() const { return !calls().empty(); }
  bool any() const { return computes() || !streamed_layers().empty(); }
  /// The first layer from `first` on that is not the host's.
  int end_of_layers(int first) const;
  /// Whose keys and values the host keeps, and whose the GPU keeps.
  std::vector<int> cached_layers() const;
  std::vector<int> layers_cached_on_gpu() const { return layers_with_cache(false); }
  std::vector<int> streamed_layers() const { return layers_that(&Part::streamed); }
  std::vector<int> lent_layers() const { return layers_that(&Part::lent); }
  /// In the order of a token that the GPU has a part of; those of kCold are left out while nothing
  /// is cold.
  std::vector<HostCall> calls() const;
  /// What the model's weights take of the host's memory.
  std::int64_t weight_bytes(const Model& model) const;

 private:
  struct Part {
    bool layer = false, cache = false, experts = false, streamed = false, lent = false, moe = false;
  };
  Part part(int i) const { return parts_.empty() ? Part{} : parts_[std::size_t(i)]; }
  std::vector<int> layers_with_cache(bool on_host) const;
  std::vector<int> layers_that(bool Part::*is) const;

  std::vector<Part> parts_;  // by layer
  bool tied_ = false;        // the embedding is the head's matrix as well
  bool head_ = false, shares_cold_ = false, decodes_ = false;
};

}  // namespace rigcast::engine
