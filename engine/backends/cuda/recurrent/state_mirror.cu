#include "engine/backends/cuda/recurrent/state_mirror.cuh"

#include <algorithm>

#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {
namespace {

struct Places {
  float *host, *gpu;
};

double copy_floats(const Stream& stream, Places at, std::int64_t floats, cudaMemcpyKind direction) {
  const bool up = direction == cudaMemcpyHostToDevice;
  const std::size_t bytes = std::size_t(floats) * sizeof(float);
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(up ? at.gpu : at.host, up ? at.host : at.gpu, bytes, direction,
                                    stream.get()));
  return double(bytes);
}

}  // namespace

// The host keeps the tokens that were convolved last with the oldest first, the GPU by position.
double StateMirror::copy(int state, TokenCount cached, cudaMemcpyKind direction) const {
  double bytes = 0;
  for (const int layer : layers_) {
    const Layer& w = model_.layers[std::size_t(layer)];
    const std::int64_t heads = w.mixer.inner_size * w.mixer.state_size, taps = w.mixer.conv_kernel;
    const std::int64_t channels = heads > 0 ? w.mixer.convolved() : model_.spec.hidden;
    const LayerStates on_gpu = gpu_.of(layer);
    Places at{host_.at(state, layer).data(), on_gpu.first + state * on_gpu.stride};
    if (heads > 0) bytes += copy_floats(stream_, at, heads, direction);
    at = {at.host + heads, at.gpu + heads};
    for (std::int64_t i = 0; i < taps - 1; ++i) {
      const TokenCount position = cached - (taps - 1) + i;
      float* const own = at.host + i * channels;
      if (position >= 0)
        bytes +=
            copy_floats(stream_, {own, at.gpu + position % taps * channels}, channels, direction);
      else if (direction == cudaMemcpyDeviceToHost)
        std::fill_n(own, channels, 0.0f);
    }
  }
  stream_.wait();
  return bytes;
}

void StateMirror::to_gpu(int state, TokenCount cached) {
  if (newest_ != Side::kHost || cached == 0) return;
  sent_.to_gpu += copy(state, cached, cudaMemcpyHostToDevice);
  newest_ = Side::kBoth;
}

void StateMirror::to_host(int state, TokenCount cached) {
  if (newest_ != Side::kGpu) return;
  sent_.to_host += copy(state, cached, cudaMemcpyDeviceToHost);
  newest_ = Side::kBoth;
}

}  // namespace rigcast::engine::cuda
