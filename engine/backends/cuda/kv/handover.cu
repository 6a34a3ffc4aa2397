#include <algorithm>

#include "core/base/error.hpp"
#include "engine/backends/cuda/kv/handover.cuh"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {

Handover::Handover(const Stream& stream, const DeviceCache& gpu, const KvCache& host,
                   std::vector<int> layers)
    : stream_(stream), gpu_(gpu), host_(host), layers_(std::move(layers)) {
  RIGCAST_ASSERT(gpu.block_layout().layer_bytes() == host.layer_bytes());
  RIGCAST_ASSERT(gpu.block_layout().block_tokens == host.block_tokens());
}

double Handover::copy(TokenCount first, TokenCount last, cudaMemcpyKind way) const {
  const TokenCount in_block = host_.block_tokens();
  const std::size_t bytes = std::size_t(host_.layer_bytes());
  double copied = 0;
  for (TokenCount block = first / in_block; block * in_block < last; ++block)
    for (const int layer : layers_) {
      std::byte* const here = host_.block(layer, block);
      std::byte* const there = gpu_.block(layer, block);
      const bool up = way == cudaMemcpyHostToDevice;
      RIGCAST_CUDA_CALL(
          cudaMemcpyAsync(up ? there : here, up ? here : there, bytes, way, stream_.get()));
      copied += double(bytes);
    }
  stream_.wait();
  return copied;
}

double Handover::bring(TokenCount& has, TokenCount cached, cudaMemcpyKind way,
                       Recorder* recorder) const {
  if (has >= cached) return 0;
  const double since = recorder ? recorder->now() : 0;
  const double bytes = copy(has, cached, way);
  has = cached;
  const bool up = way == cudaMemcpyHostToDevice;
  if (recorder)
    recorder->add(up ? ActivityKind::kFetchKv : ActivityKind::kStoreKv, -1, cached, since, bytes);
  return bytes;
}

void Handover::to_gpu(TokenCount cached, Recorder* recorder) {
  sent_.to_gpu += bring(on_gpu_, cached, cudaMemcpyHostToDevice, recorder);
}

void Handover::to_host(TokenCount cached, Recorder* recorder) {
  sent_.to_host += bring(on_host_, cached, cudaMemcpyDeviceToHost, recorder);
}

void Handover::truncate(TokenCount tokens) {
  on_gpu_ = std::min(on_gpu_, tokens);
  on_host_ = std::min(on_host_, tokens);
}

}  // namespace rigcast::engine::cuda
