#pragma once
// Runs of a layer's operations that backends compute at once. A backend lists the patterns that its
// kernels fuse. A layer that cannot be split into these patterns is refused.

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "engine/model/layer_ops.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

enum class FusedBlock {
  kAttention,  // norm, projections, attention over the cache, output, residual
  kFfn,        // norm, gated FFN, residual
  kExperts,    // norm, router, experts and the shared one, residual
  kDeltaNet,   // norm, projections, convolution, gated delta rule, gated norm, output, residual
  kShortConvolution,  // norm, projection, convolution between gates, output, residual
  kMamba,  // norm, projection, convolution, states, gate, perhaps a norm, output, residual
};

/// The operations that a block computes. Some are optional: kernels skip biases and head norms that
/// a model does not have.
struct BlockPattern {
  struct Op {
    LayerOp op;
    bool optional = false;
  };
  FusedBlock block{};
  std::vector<Op> ops;
};

/// The blocks of a pre-norm layer, as in most decoders: attention, FFN and experts.
std::span<const BlockPattern> pre_norm_blocks();

/// Those of any decoder_layer(): norms before, behind or around, without RoPE, with GELU.
/// Kernels apply the norms and biases that the layer has, and read its AttentionRule.
std::span<const BlockPattern> decoder_blocks();

/// Splits `ops` into blocks, in order. The error names the first operation that matches none of
/// `patterns`.
Result<std::vector<FusedBlock>> fuse(std::span<const LayerOp> ops,
                                     std::span<const BlockPattern> patterns);

/// The reason why a backend with these patterns cannot compute the model, with layer and operation;
/// nullopt if it can. `backend`: its name in the error, "the CPU".
std::optional<Error> check_layers(const Model& model, std::span<const BlockPattern> patterns,
                                  std::string_view backend);

}  // namespace rigcast::engine
