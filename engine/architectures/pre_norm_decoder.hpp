#pragma once
// What Llama, Qwen and their kin share: a decoder whose layers norm the residual stream for grouped
// attention with rotary positions, and again for a gated FFN or experts, and add what these give.

#include <string_view>
#include <vector>

#include "core/model/model_spec.hpp"
#include "engine/architectures/metadata_keys.hpp"
#include "engine/model/layer_ops.hpp"

namespace rigcast::engine {

/// Biases and norms of heads where the spec has them.
std::vector<LayerOp> pre_norm_layer(const ModelSpec& spec, int layer);

/// What a spec can say and the operations of pre_norm_layer do not do, in words; empty: nothing.
std::string_view not_pre_norm_decoder(const ModelSpec& spec);

extern const MetadataKeys kDecoderKeys;

}  // namespace rigcast::engine
