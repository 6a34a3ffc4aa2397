#pragma once
// Constants and sizes on which the project's own engine and its forecast agree: buffer sizes,
// limits of batches, and the rule when the host takes a share of attention.

#include <cstddef>
#include <cstdint>

#include "core/model/model_spec.hpp"

namespace rigcast {

/// The number of cache blocks in the lists of pointers that GPU kernels use.
inline constexpr std::size_t kMaxKvBlocks = 1 << 16;

/// Evicted blocks are allocated in pieces of so many in host memory: a copy of 16 blocks of an 8B
/// model's layer is 8 MB, which reaches the link's full rate.
inline constexpr int kColdPieceBlocks = 16;

/// The ring buffer into which evicted blocks are copied for attention: two groups of neighbouring
/// layers in turn, with a slot for each of their layers.
struct KvRing {
  TokenCount blocks = 0;  // of a slot
  int group_layers = 1;

  int layers() const { return 2 * group_layers; }
};
/// The ring buffer for `cold` blocks, of `layer_bytes` each, in every one of `layers` layers.
KvRing kv_ring(TokenCount cold, int layers, std::int64_t layer_bytes);

/// The smallest share of a layer's copy time that the host must save before it attends to evicted
/// blocks: a host operation costs the GPU more than its wait, which varies from token to token.
inline constexpr double kMinHostGain = 0.15;

/// Bytes of the cache with which the host's attention is timed when a model is loaded: larger than
/// most processors' caches.
inline constexpr std::size_t kTimedCacheBytes = std::size_t(256) << 20;

/// Batches of up to this many tokens are computed one by one, which is cheaper.
inline constexpr TokenCount kFewTokens = 2;
/// The largest batch that a GPU multiplies with quantized weights directly; for longer ones weights
/// are written out as FP16 first.
inline constexpr int kMaxSmallBatch = 64;
/// Tokens whose experts are computed at once: weights are then read seldom, and rows need little
/// memory. The limit is higher where experts are copied for a batch, because copying takes longer
/// than all else.
inline constexpr int kMaxRoutedTokens = 1024, kMaxRoutedTokensStreamed = 4096;
/// Bytes of host experts that are copied together: one expert if it is larger, all if they are
/// smaller.
inline constexpr std::size_t kExpertSlotBytes = 32 << 20;
/// The workspace of cuBLAS, as the library's manual advises for Hopper.
inline constexpr std::size_t kBlasWorkspaceBytes = 32 << 20;

/// Tokens of the batch with which the host is timed when a model is loaded: so many that weights,
/// and experts, are reused and not only read; at most `ubatch`.
TokenCount timed_tokens(const ModelSpec& model, TokenCount ubatch);

/// Bytes of the activations of a CPU step of `tokens` tokens, including logits of one of them.
double cpu_buffer_bytes(const ModelSpec& model, double tokens);

/// Floats of the largest message between host and GPU for one token: projections, partial
/// attention, or a hidden state with the chosen experts.
std::size_t message_floats(const ModelSpec& model);

}  // namespace rigcast
