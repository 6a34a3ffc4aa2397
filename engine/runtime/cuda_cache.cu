#include "engine/runtime/cuda_cache.cuh"

#include "core/error.hpp"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {
namespace {

int bytes_of_row(QuantFormat type, std::int64_t width) {
  const QuantFormatInfo& f = info(type);
  return int(width / f.block_elements * f.block_bytes);
}

Cache layout(const ModelSpec& spec, KvTypes types, TokenCount block_tokens) {
  Cache c;
  c.block_tokens = int(block_tokens);
  c.kv_heads = spec.kv_heads;
  c.head_dim = int(spec.head_dim);
  c.k_type = types.k;
  c.v_type = types.v;
  c.k_row = bytes_of_row(types.k, spec.head_dim);
  c.v_row = bytes_of_row(types.v, spec.head_dim);
  return c;
}

}  // namespace

DeviceCache::DeviceCache(Vram& vram, const Stream& stream, const ModelSpec& spec,
                         const Shape& shape, const std::vector<int>& layers)
    : vram_(vram),
      stream_(stream),
      types_(shape.types),
      view_(layout(spec, shape.types, shape.block_tokens)),
      place_of_(std::size_t(spec.layers), -1),
      block_bytes_(layers.size() * std::size_t(view_.layer_bytes())),
      list_(vram.take(kMostBlocks * sizeof(std::byte*), "KV cache")) {
  view_.blocks = list_.as<std::byte*>();
  for (std::size_t i = 0; i < layers.size(); ++i) place_of_[std::size_t(layers[i])] = int(i);
}

void DeviceCache::reserve(TokenCount tokens) {
  const std::size_t wanted = std::size_t((tokens + view_.block_tokens - 1) / view_.block_tokens);
  if (wanted <= blocks_.size() || block_bytes_ == 0) return;
  if (wanted > kMostBlocks) throw MachineError("the context is longer than the cache can list");
  const std::size_t first = blocks_.size(), more = wanted - first;
  pieces_.push_back(vram_.take(more * block_bytes_, "KV cache"));
  for (std::size_t i = 0; i < more; ++i)
    blocks_.push_back(pieces_.back().as<std::byte>() + i * block_bytes_);
  // Rows of blocks are read by 16 bytes, which go beyond the last one: what is there is not used,
  // but it is something.
  if (!holds_halves())
    RIGCAST_CUDA_CALL(cudaMemsetAsync(pieces_.back().as(), 0, more * block_bytes_, stream_.get()));
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(list_.as<std::byte*>() + first, blocks_.data() + first,
                                    more * sizeof(std::byte*), cudaMemcpyHostToDevice,
                                    stream_.get()));
}

}  // namespace rigcast::engine::cuda
