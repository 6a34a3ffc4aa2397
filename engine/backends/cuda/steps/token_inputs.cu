#include "engine/backends/cuda/steps/token_inputs.cuh"

#include "engine/cuda/cuda_call.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"

namespace rigcast::engine::cuda {

void TokenInputs::place_ids(std::span<const std::int32_t> ids) {
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(buffers_.vectors.ids, ids.data(), ids.size_bytes(),
                                    cudaMemcpyHostToDevice, stream_.get()));
  next_ = -1;
}

void TokenInputs::place_token(std::int32_t id) {
  if (id != next_) place_ids({&id, 1});
}

void TokenInputs::place_position(TokenCount cached) {
  if (position_ == cached) return;
  set_position(stream_, buffers_.token.position, std::int32_t(cached));
  position_ = cached;
}

void TokenInputs::place_state(int state) {
  if (state_ == state) return;
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(buffers_.token.state, &state, sizeof state,
                                    cudaMemcpyHostToDevice, stream_.get()));
  state_ = state;
}

void TokenInputs::set_sampling(const SamplingParams& draw) {
  if (sampling_ == draw) return;
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(&buffers_.token.sampling->params, &draw, sizeof draw,
                                    cudaMemcpyHostToDevice, stream_.get()));
  sampling_ = draw;
}

}  // namespace rigcast::engine::cuda
