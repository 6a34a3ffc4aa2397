#pragma once
// The forward pass of a step of several sequences through all layers: single tokens and chunks of
// prompts together.

#include <cstdint>
#include <span>

#include "engine/backends/cuda/forward/stages.cuh"
#include "engine/backends/cuda/forward/state.cuh"
#include "engine/kernels/cuda/attention/step_attention.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"

namespace rigcast::engine::cuda {

/// Rows of a step that are consecutive tokens of one sequence.
struct PromptChunk {
  int first_row = 0, rows = 0;
  int sequence = 0;
  TokenCount cached = 0;      // the sequence's tokens before these
  bool wants_logits = false;  // of its last row
};

/// The rows of a step. First come `singles` rows, each the only new token of its sequence, then the
/// rows of chunks. All pointers are to GPU memory, and spans are of the host's.
struct SequenceRows {
  int rows = 0, singles = 0;
  const std::int32_t* ids = nullptr;     // [rows]
  StepRows at{};                         // of all rows
  const std::int32_t* states = nullptr;  // [rows]: of recurrent layers (MixerRows)
  /// Lists of the blocks of all sequences: that of sequence s is at tables + s * table_stride.
  std::byte* const* tables = nullptr;
  /// The same of layers with a window whose blocks are apart.
  std::byte* const* window_tables = nullptr;
  int table_stride = 0;
  StepSplits splits{};  // of single rows
  Partials partials{};  // with room for `partial_rows` rows of that many splits
  int partial_rows = 0;
  std::span<const PromptChunk> chunks{};
  // For the host's part, if it has one; of all rows.
  std::span<const std::int32_t> ids_on_host{};
  std::span<const StepSequence> owners{};
};

/// Queues a step. The first rows of vectors.hidden become the hidden states, before the last norm,
/// of the single rows, and after these of the last row of each chunk that wants logits; what only
/// other rows need is left out. Returns the number of these rows. Nothing waits, unless the host
/// computes a part.
int queue_sequences(State& s, const SequenceRows& step, StageListener* stages);

/// Where the head is the GPU's: queues the logits of the first rows of vectors.hidden:
/// logits[rows][vocabulary].
void queue_heads(const ForwardContext& f, int rows, float* logits);

}  // namespace rigcast::engine::cuda
