#pragma once
// Sizes of buffers on which the project's own engine and its forecast agree. Neither clocks nor
// choices are shared: what to compute where, and in which batches, each side decides for itself.

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

/// Blocks of the cache that a layer with a window keeps, as a ring, where a step has up to
/// `step_tokens` tokens: those of the window before a step and of the step, wherever in a block
/// they begin. 0: no layer has a window.
TokenCount window_ring_blocks(const ModelSpec& model, TokenCount step_tokens,
                              TokenCount block_tokens);

/// Blocks of layers with a window in a pool of their own, which many sequences share: as many as
/// these can hold at once, of which each has its window before a step and some of its `step_tokens`
/// tokens, and those of each checkpoint. 0: no layer has a window, or all have.
TokenCount window_pool_blocks(const ModelSpec& model, std::int64_t sequences,
                              TokenCount step_tokens, TokenCount block_tokens,
                              std::int64_t checkpoints);

/// Bytes of the cache with which the host's attention is timed when a model is loaded: larger than
/// most processors' caches.
inline constexpr std::size_t kTimedCacheBytes = std::size_t(256) << 20;

/// Bytes of a slot through which a layer's host experts are copied, of `expert_bytes` each: as many
/// experts as fit into 32 MiB, but at least one.
std::size_t expert_slot_bytes(std::size_t expert_bytes, int experts);

/// The workspace of cuBLAS, as the library's manual advises for Hopper.
inline constexpr std::size_t kBlasWorkspaceBytes = 32 << 20;

/// States of recurrent layers of one sequence: its own, and one that is kept as it was after the
/// last prompt. Where many sequences share steps, each has one.
inline constexpr int kStatesOfOneSequence = 2;

/// Checkpoints that a server of so many sequences keeps of what these have beside their blocks. Of
/// states of recurrent layers two for each, of windows one, which are larger; but not so few that
/// one conversation's replace another's, nor so many that they crowd out the cache. 0: there is
/// neither.
int server_checkpoints(const ModelSpec& model, std::size_t sequences);
/// All states of recurrent layers of such a server; checkpoints where requests find what others
/// began with.
int server_states(const ModelSpec& model, std::size_t sequences, bool prefix_cache);

/// Bytes of the activations of a CPU step of `tokens` tokens, including logits of one of them.
double cpu_buffer_bytes(const ModelSpec& model, double tokens);

/// Floats of the largest message between host and GPU for one token: projections, partial
/// attention, or a hidden state with the chosen experts.
std::size_t message_floats(const ModelSpec& model);

}  // namespace rigcast
