#pragma once
// A layer of a decoder as a list of operations, by the traits of its architecture and its model.
// This is the only place that has their order.

#include <string_view>
#include <vector>

#include "engine/architectures/traits/architecture_traits.hpp"
#include "engine/model/layer_ops.hpp"

namespace rigcast::engine {

/// Grouped-query attention, then a gated FFN or experts; both are added to the residual stream.
std::vector<LayerOp> decoder_layer(const Architecture& architecture, const ModelSpec& spec,
                                   int layer);

/// True if RoPE rotates queries and keys of the layer.
bool rotates(const Architecture& architecture, const ModelSpec& spec, int layer);

/// True if heads of the layer's queries and keys are normed behind RoPE, without weights.
bool norms_turned(const Architecture& architecture, const ModelSpec& spec, int layer);

/// A trait of the spec that decoder_layer() does not express, in words; empty: none.
std::string_view unexecuted_trait(const Architecture& architecture, const ModelSpec& spec);

}  // namespace rigcast::engine
