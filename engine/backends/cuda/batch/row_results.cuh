#pragma once
// The logits of a step's rows on the GPU, and the ids that are chosen from them.

#include <span>
#include <vector>

#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/kernels/cuda/sampling/sample.cuh"
#include "engine/run/sampler.hpp"

namespace rigcast::engine::cuda {

class RowResults {
 public:
  /// Makes room for `rows` rows of `vocabulary` logits. Throws ShortOfMemory.
  RowResults(Vram& vram, const Stream& stream, int rows, std::int64_t vocabulary);

  float* logits() const { return logits_; }
  /// Copies how each row's id is drawn: by its sampler, or greedily where that is null. Returns
  /// true if any is drawn at random on the GPU.
  bool place_samplers(std::span<Sampler* const> rows, const Stream& stream);
  /// Queues the choice of `rows` ids. `draw`: some of them are drawn at random.
  void queue_choice(int rows, bool draw, const Stream& stream) const;
  /// The id of a row, once the stream has been waited for; a sampler whose candidates are too many
  /// for the GPU chooses here, from the row's logits. BatchExecutor::kNotNumbers: its
  /// logits are not.
  std::int32_t take(int row, Sampler& sampler, const Stream& stream);
  /// Copies the first `rows` rows of logits to the host, and waits.
  std::span<const float> read_logits(int rows, const Stream& stream);

 private:
  std::span<const float> read_row(int row, const Stream& stream);

  std::int64_t vocabulary_;
  VramPiece memory_;
  float* logits_ = nullptr;
  ArgmaxState* greedy_ = nullptr;
  SampleState* drawn_ = nullptr;
  PinnedBuffer ids_, params_;
  std::vector<float> on_host_;
};

}  // namespace rigcast::engine::cuda
