#pragma once
// Inputs of a step on the GPU: its token ids, the position of the first, and how the next id is
// sampled. A token's step leaves there what the next token begins with.

#include <optional>
#include <span>

#include "engine/backends/cuda/forward/buffers.cuh"
#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine::cuda {

/// Copies only what the GPU does not have yet. Throws CudaFailure.
class TokenInputs {
 public:
  /// Stream and buffers outlive this object.
  TokenInputs(const Stream& stream, const Buffers& buffers) : stream_(stream), buffers_(buffers) {}

  void place_ids(std::span<const std::int32_t> ids);
  void place_token(std::int32_t id);
  void place_position(TokenCount cached);
  /// Of recurrent layers; the first one, if it is never called.
  void place_state(int state);
  void set_sampling(const SamplingParams& draw);

  /// Records that a step was queued, after which the position is `cached`.
  void moved_to(TokenCount cached) { position_ = cached; }
  /// Records that a token has ended; `id`: the chosen id, or -1 if the GPU chose none.
  void chose(std::int32_t id) { next_ = id; }
  std::int32_t next() const { return next_; }
  /// Records that the random number was used.
  void count_draw() { ++sampling_->number; }
  /// Marks ids and position on the GPU as unknown; sampling parameters stay.
  void forget() { position_ = next_ = -1; }
  void forget_position() { position_ = -1; }
  void forget_draw() { sampling_.reset(); }

 private:
  const Stream& stream_;
  const Buffers& buffers_;
  TokenCount position_ = -1;  // negative: not known
  int state_ = 0;
  std::int32_t next_ = -1;  // the id with which the GPU continues
  std::optional<SamplingParams> sampling_;
};

}  // namespace rigcast::engine::cuda
