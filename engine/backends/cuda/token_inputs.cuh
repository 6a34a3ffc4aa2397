#pragma once
// What a step finds on the GPU beside weights and cache: its ids, the position of the first, and
// how the next id is drawn. A token leaves there what the one after it begins with.

#include <optional>
#include <span>

#include "engine/backends/cuda/forward/buffers.cuh"
#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine::cuda {

/// Copies what is not there yet. Throws CudaFailure.
class TokenInputs {
 public:
  /// Both outlive it.
  TokenInputs(const Stream& stream, const Buffers& buffers) : stream_(stream), buffers_(buffers) {}

  void place_ids(std::span<const std::int32_t> ids);
  void place_token(std::int32_t id);
  void place_position(TokenCount cached);
  void place_draw(const Draw& draw);

  /// A step was queued, and leaves the position at `cached`.
  void moved_to(TokenCount cached) { position_ = cached; }
  /// A token has ended; `id`: what it chose, -1 where the GPU did not.
  void chose(std::int32_t id) { next_ = id; }
  std::int32_t next() const { return next_; }
  /// The draw's random number was used.
  void count_draw() { ++draw_->number; }
  /// What the GPU has is not known any more, but for the draw.
  void forget() { position_ = next_ = -1; }
  void forget_position() { position_ = -1; }
  void forget_draw() { draw_.reset(); }

 private:
  const Stream& stream_;
  const Buffers& buffers_;
  TokenCount position_ = -1;  // negative: not known
  std::int32_t next_ = -1;    // the id that the GPU goes on with
  std::optional<Draw> draw_;
};

}  // namespace rigcast::engine::cuda
