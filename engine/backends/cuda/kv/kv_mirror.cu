#include "engine/backends/cuda/kv/kv_mirror.cuh"

#include <algorithm>

#include "core/base/error.hpp"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {

KvMirror::KvMirror(const Stream& stream, const DeviceCache& gpu, const KvCache& host,
                   std::vector<int> layers)
    : stream_(stream), gpu_(gpu), host_(host), layers_(std::move(layers)) {
  for (const int layer : layers_)
    RIGCAST_ASSERT(gpu.layout(layer).layer_bytes() == host.layer_bytes(layer));
  RIGCAST_ASSERT(gpu.block_tokens() == host.block_tokens());
}

double KvMirror::copy(TokenCount first, TokenCount last, cudaMemcpyKind direction) const {
  const TokenCount in_block = host_.block_tokens();
  double copied = 0;
  for (TokenCount block = first / in_block; block * in_block < last; ++block)
    for (const int layer : layers_) {
      const auto bytes = std::size_t(host_.layer_bytes(layer));
      std::byte* const here = host_.block(layer, block);
      std::byte* const there = gpu_.block(layer, block);
      const bool up = direction == cudaMemcpyHostToDevice;
      RIGCAST_CUDA_CALL(
          cudaMemcpyAsync(up ? there : here, up ? here : there, bytes, direction, stream_.get()));
      copied += double(bytes);
    }
  stream_.wait();
  return copied;
}

double KvMirror::copy_missing(TokenCount& has, TokenCount cached, cudaMemcpyKind direction,
                              Recorder* recorder) const {
  if (has >= cached) return 0;
  const double since = recorder ? recorder->now() : 0;
  const double bytes = copy(has, cached, direction);
  has = cached;
  const bool up = direction == cudaMemcpyHostToDevice;
  if (recorder)
    recorder->add(up ? ActivityKind::kFetchKv : ActivityKind::kStoreKv, -1, cached, since, bytes);
  return bytes;
}

void KvMirror::to_gpu(TokenCount cached, Recorder* recorder) {
  sent_.to_gpu += copy_missing(on_gpu_, cached, cudaMemcpyHostToDevice, recorder);
}

void KvMirror::to_host(TokenCount cached, Recorder* recorder) {
  sent_.to_host += copy_missing(on_host_, cached, cudaMemcpyDeviceToHost, recorder);
}

void KvMirror::truncate(TokenCount tokens) {
  on_gpu_ = std::min(on_gpu_, tokens);
  on_host_ = std::min(on_host_, tokens);
}

}  // namespace rigcast::engine::cuda
