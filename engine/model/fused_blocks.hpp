#pragma once
// Runs of a layer's operations that backends compute at once. A backend names the patterns that its
// kernels fuse; a layer whose list is not made of them is refused, never computed in another way.

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
  kExperts,    // norm, router and experts, residual
};

/// The operations that a block computes. Some may be missing: kernels skip biases and norms of
/// heads that a model does not have.
struct BlockPattern {
  struct Op {
    LayerOp op;
    bool optional = false;
  };
  FusedBlock block{};
  std::vector<Op> ops;
};

/// The blocks of a layer that norms what a block reads, as most decoders do: attention, FFN and
/// experts.
std::span<const BlockPattern> pre_norm_blocks();

/// `ops` as blocks, in their order. Errors: names the first operation of a run that is none of
/// `patterns`.
Result<std::vector<FusedBlock>> fuse(std::span<const LayerOp> ops,
                                     std::span<const BlockPattern> patterns);

/// Why a backend with these patterns cannot compute the model: names layer and operation; nullopt
/// if it can. `backend`: as a text names it, "the CPU".
std::optional<Error> refuse_layers(const Model& model, std::span<const BlockPattern> patterns,
                                   std::string_view backend);

}  // namespace rigcast::engine
