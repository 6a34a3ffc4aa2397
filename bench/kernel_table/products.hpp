#pragma once
// What the kernels of a token multiply, in the order in which decode.cu launches them.

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/model/kv_bytes.hpp"
#include "engine/model/model.hpp"

namespace rigcast::bench {

/// Kernels of different kinds have different names.
enum class ProductKind { kMatvec, kGateUp, kMlpUp, kRouter, kExpertsDown, kAttention };

struct Product {
  ProductKind kind{};
  std::string what;                  // "q k v"
  std::vector<QuantFormat> formats;  // of its matrices; empty: it has none
  double bytes = 0;  // of weights, of experts those that are chosen; of attention the cache's
};

/// The products of a token behind `cached` ones, all of it on the GPU. Weights alone: norms, biases
/// and the embedding's row are a thousandth of them. Error: the model has a kind of layer that is
/// not covered, by name.
Result<std::vector<Product>> products_of_token(const engine::Model& model, const KvTypes& kv,
                                               TokenCount cached);

}  // namespace rigcast::bench
