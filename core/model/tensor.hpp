#pragma once
// Tensors of a model, and the table of them: shape, format and bytes as in a GGUF file.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/quant_mix.hpp"

namespace rigcast {

struct Tensor {
  std::string name;  // as in a GGUF file, "blk.0.attn_q.weight"
  TensorRole role{};
  int layer = -1;  // -1: embedding, head, final norm, rope factors; past the model's layers
                   // for speculation
  std::array<std::uint64_t, 3> shape{1, 1, 1};  // shape[0] is the row, contiguous
  int dimensions = 1;
  QuantFormat format{};
  std::uint64_t bytes = 0;

  std::uint64_t elements() const { return shape[0] * shape[1] * shape[2]; }
};

/// Matrices that take the same vector, as one product: q, k and v; gate and up.
struct ProductShape {
  std::uint64_t rows = 0;  // of all of them
  std::uint64_t elements = 0;
  QuantFormat format{};          // of all of them
  bool several_formats = false;  // that is of the first one alone
  bool operator==(const ProductShape&) const = default;
};

/// Weights that one operation reads, by block format.
struct WeightGroup {
  /// Into the operation, out of it, and what is neither.
  enum Product { kIn, kOut, kOther, kProducts };

  std::array<std::uint64_t, kQuantFormatCount> bytes_by_format{};
  std::array<std::uint64_t, kQuantFormatCount> elements_by_format{};
  std::array<ProductShape, kProducts> products{};
  int matrices = 0;  // of two or more dimensions, without biases: each is one kernel or more

  void add(const Tensor& t);
  std::uint64_t bytes() const;
  std::uint64_t elements() const;
  bool operator==(const WeightGroup&) const = default;
};

struct LayerWeights {
  WeightGroup attention;  // norms, q, k, v, output and their biases; a recurrent mixer
  WeightGroup ffn;        // a dense FFN with its norms; of a MoE layer: norms, router, shared
  WeightGroup experts;    // all routed experts of the layer

  std::uint64_t bytes() const { return attention.bytes() + ffn.bytes() + experts.bytes(); }
  /// Bytes of the part that may be placed separately: all routed experts, or else the FFN.
  std::uint64_t ffn_or_experts() const { return (experts.bytes() > 0 ? experts : ffn).bytes(); }
  std::uint64_t rest() const { return bytes() - ffn_or_experts(); }
  bool operator==(const LayerWeights&) const = default;
};

struct TensorTable {
  std::vector<Tensor> tensors;  // in the order a pass reads them, the embedding first
  std::vector<LayerWeights> layers;
  WeightGroup embedding;           // token (and per-layer) embeddings; a row lookup
  WeightGroup head;                // what every token reads outside the blocks: final norm, output
                                   // matrix (with tied embeddings the embedding), rope factors
  WeightGroup speculation;         // blocks that only draft tokens: stored, no part of a pass
  bool head_is_embedding = false;  // head's matrix is the embedding: not stored twice

  std::uint64_t bytes() const;  // of tensor data, each tensor once, without padding
  std::uint64_t elements() const;
  /// Bytes read for one token when everything is read once: no embedding unless it is the head,
  /// experts_used of the experts, nothing of speculation.
  double active_bytes(const ModelSpec& model) const;
  /// The first tensor in a format that the engine does not compute with; nullptr: there is none.
  const Tensor* uncomputed() const;
};

}  // namespace rigcast
