#pragma once
// The structure that Llama, Qwen and similar models share: a pre-norm decoder. A layer norms the
// residual stream for grouped-query attention with RoPE, adds the result, norms again for a gated
// FFN or experts, and adds that result.

#include <string_view>
#include <vector>

#include "core/model/model_spec.hpp"
#include "engine/architectures/metadata_keys.hpp"
#include "engine/model/layer_ops.hpp"

namespace rigcast::engine {

/// The operations of a layer, with biases and head norms if the spec has them.
std::vector<LayerOp> pre_norm_layer(const ModelSpec& spec, int layer);

/// A trait of the spec that the operations of pre_norm_layer do not cover, in words; empty: none.
std::string_view not_pre_norm_decoder(const ModelSpec& spec);

extern const MetadataKeys kDecoderKeys;

}  // namespace rigcast::engine
