#pragma once
// Sizes of what the project's own engine takes beside weights: the engine allocates by them, and
// forecasts of it plan by them.

#include <cstddef>
#include <cstdint>

#include "core/model/model_spec.hpp"

namespace rigcast {

/// Blocks of a cache that a GPU lists for its kernels, by a pointer each.
inline constexpr std::size_t kMostKvBlocks = 1 << 16;

/// Blocks that have left a GPU lie in pieces of so many of the host's memory: a copy of 16 blocks
/// of an 8B model's layer is 8 MB, the link's full rate.
inline constexpr int kColdPieceBlocks = 16;

/// Where blocks that have left a GPU arrive when attention needs them: two groups of neighbouring
/// layers in turn, with a slot for each of their layers.
struct KvRing {
  TokenCount blocks = 0;  // of a slot
  int group_layers = 1;

  int layers() const { return 2 * group_layers; }
};
/// For `cold` blocks, of `layer_bytes` each, in every one of `layers` layers.
KvRing kv_ring(TokenCount cold, int layers, std::int64_t layer_bytes);

/// The host is asked about blocks that have left a GPU where that makes a layer shorter by this
/// share at least: to ask costs the GPU more than its wait, which differs from token to token.
inline constexpr double kLeastHostGain = 0.15;

/// Of a cache by which the host's part of one that has left a GPU is timed when a model is loaded:
/// more than most processors keep.
inline constexpr std::size_t kTimedCacheBytes = std::size_t(256) << 20;

/// Tokens that a GPU takes one by one, for that is cheaper than a batch.
inline constexpr TokenCount kFewTokens = 2;
/// Tokens of a batch that a GPU multiplies with weights as they lie; longer ones have them written
/// out as halves first.
inline constexpr int kMostShortBatch = 64;
/// Tokens whose experts are taken at once: weights are then read seldom, and rows take little room.
/// Where they are copied for it, that takes longer than all else.
inline constexpr int kMostRouted = 1024, kMostRoutedToCopied = 4096;
/// Experts of the host's that are copied together: one where that is more, all where that is less.
inline constexpr std::size_t kExpertSlotBytes = 32 << 20;
/// Of cuBLAS; what the library's manual advises for Hopper.
inline constexpr std::size_t kBlasWorkspaceBytes = 32 << 20;

/// Tokens of the batch by which the host is timed when a model is loaded: so many that weights are
/// used, not only read; of experts, too. No batch has more than `ubatch`.
TokenCount timed_tokens(const ModelSpec& model, TokenCount ubatch);

/// Bytes of the vectors of a step of `tokens` tokens on the CPU, logits of one of them included.
double cpu_buffer_bytes(const ModelSpec& model, double tokens);

/// Floats of the widest message between host and GPU for one token: projections, part of an
/// attention, or a hidden state and the experts that were chosen.
std::size_t message_floats(const ModelSpec& model);

}  // namespace rigcast
