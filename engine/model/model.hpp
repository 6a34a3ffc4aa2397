#pragma once
// A model ready to compute with: facts, what a file says beyond them, and its weights by place.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/model/model_spec.hpp"
#include "engine/architectures/hyperparameters.hpp"
#include "engine/model/matrix.hpp"

namespace rigcast::engine {

struct Layer {
  std::vector<float> attention_norm;
  Matrix q, k, v, output;
  std::vector<float> q_bias, k_bias, v_bias, output_bias;  // empty: none
  std::vector<float> q_norm, k_norm;                       // of a head's width; empty: none
  std::vector<float> ffn_norm;
  Matrix gate, up, down;  // a dense FFN
  Matrix router;          // a MoE layer: rows are experts
  MatrixStack expert_gate, expert_up, expert_down;
};

/// Weights may be views: `storage` keeps what they point into.
struct Model {
  ModelSpec spec;
  Hyperparameters hyper;
  Matrix embedding;  // a row a token of the vocabulary
  Matrix head;       // the embedding itself where the two are tied
  std::vector<float> final_norm;
  std::vector<float> rope_factors;  // frequencies are divided by them; empty: none
  std::vector<Layer> layers;
  std::shared_ptr<const void> storage;
};

/// One tensor as a file or a generator offers it.
struct NamedTensor {
  std::string_view name;  // as in a GGUF file, "blk.0.attn_q.weight"
  QuantFormat format{};
  std::vector<std::int64_t> shape;  // shape[0] is the row, contiguous
  const std::byte* data = nullptr;
};

/// Why the model cannot be computed: an architecture that engine/architectures does not have, or a
/// trait that is not executed; nullopt if it can.
std::optional<Error> refuse_to_execute(const ModelSpec& spec);

/// Puts every tensor in its place and checks its shape against the spec. Vectors are copied to F32.
/// Errors: an architecture or a trait that is not executed, a tensor that is missing, of another
/// shape, or of a format that its place cannot have.
Result<Model> bind_model(ModelSpec spec, const Hyperparameters& hyper,
                         std::span<const NamedTensor> tensors, std::shared_ptr<const void> storage);

}  // namespace rigcast::engine
