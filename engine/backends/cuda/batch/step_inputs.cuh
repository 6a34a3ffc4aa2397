#pragma once
// What the kernels of a step read besides weights and cache: token ids, positions, states and the
// block tables of the step's sequences, copied to the GPU at once.

#include <span>

#include "engine/backends/cuda/batch/step_blocks.cuh"
#include "engine/backends/cuda/batch/step_rows.hpp"
#include "engine/backends/cuda/forward/sequence_step.cuh"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/kernels/cuda/sampling/sample.cuh"

namespace rigcast::engine::cuda {

/// The shape of a step whose kernels can be captured and run again with other contents.
struct StepShape {
  int singles = 0;         // padded
  TokenCount context = 0;  // padded, of single rows
  int table = 0;           // blocks of a sequence's table: the distance between tables
};

class StepInputs {
 public:
  /// Throws ShortOfMemory.
  StepInputs(Vram& vram, const BatchLimits& limits);

  /// Copies a step's inputs to the GPU. The previous step has ended, and `blocks` have places for
  /// this one. Rows past the sequences' own read and write the unused block. `windows`: the memory
  /// of blocks of layers with a window; nullptr: these are not apart.
  /// `all_logits`: every sequence wants logits; otherwise those with a sampler.
  void place(std::span<const SequenceStep> sequences, const RowOrder& order, const StepShape& shape,
             bool all_logits, const StepBlocks& blocks, const BlockMemory* windows,
             const Stream& stream);

  const std::int32_t* ids() const { return on_gpu<std::int32_t>(0); }
  StepRows rows() const { return {ids() + tokens_, ids() + 2 * std::int64_t(tokens_)}; }
  /// By row: the number of its sequence's state; -1: the row is nobody's.
  const std::int32_t* states() const { return ids() + 3 * std::int64_t(tokens_); }
  std::byte* const* tables() const { return on_gpu<std::byte*>(header_bytes_); }
  /// Of windows, at the same distances.
  std::byte* const* window_tables() const {
    return on_gpu<std::byte*>(header_bytes_ + table_bytes_);
  }
  /// The chunks of the last step that was placed.
  std::span<const PromptChunk> chunks() const { return chunks_; }

 private:
  template <class T>
  T* on_gpu(std::size_t at) const {
    return reinterpret_cast<T*>(memory_.as<std::byte>() + at);
  }

  int tokens_;  // the most rows, padded ones included
  std::size_t header_bytes_, table_bytes_;
  VramPiece memory_;
  PinnedBuffer staging_;
  std::vector<PromptChunk> chunks_;
};

}  // namespace rigcast::engine::cuda
