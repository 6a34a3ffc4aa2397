#include "engine/backends/cuda/kv/staged_cache.cuh"

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"

namespace rigcast::engine::cuda {
namespace {

constexpr const char* kItem = "staged KV cache";

}  // namespace

StagedCache::StagedCache(Vram& vram, const Stream& computing, const Stream& copying, KvCache& host,
                         const DeviceCache& like, const std::vector<int>& layers)
    : vram_(vram), computing_(computing), copying_(copying), host_(host), like_(like) {
  for (const int layer : layers) {
    RIGCAST_ASSERT(host.layer_bytes(layer) == like.layout(layer).layer_bytes());
    block_bytes_ = std::max(block_bytes_, layer_bytes(layer));
  }
}

Cache StagedCache::view(int layer) const {
  Cache c = like_.layout(layer);
  c.first = 0;
  c.blocks = sides_[(taken_ - 1) % 2].list.as<std::byte*>();
  return c;
}

void StagedCache::make_room(Side& side, std::size_t blocks) {
  side.list = {};
  side.blocks = {};  // the host's cache has a copy
  side.blocks = vram_.allocate(blocks * block_bytes_, kItem);
  side.list = vram_.allocate(blocks * sizeof(std::byte*), kItem);
  std::vector<std::byte*> places;
  for (std::size_t i = 0; i < blocks; ++i) places.push_back(side.blocks.as() + i * block_bytes_);
  // Rows are read in units of 16 bytes, also beyond the last row. Those bytes are not used, but
  // must be initialized.
  RIGCAST_CUDA_CALL(cudaMemsetAsync(side.blocks.as(), 0, blocks * block_bytes_, computing_.get()));
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(side.list.as(), places.data(), blocks * sizeof(std::byte*),
                                    cudaMemcpyHostToDevice, computing_.get()));
  computing_.wait();
}

std::size_t StagedCache::blocks_for(TokenCount tokens) const {
  return std::size_t((tokens + host_.block_tokens() - 1) / host_.block_tokens());
}

double StagedCache::bytes_to_reserve(TokenCount tokens) const {
  const std::size_t wanted = blocks_for(tokens);
  if (wanted <= room_) return 0;
  return double(sides_.size()) * double(wanted - room_) * double(block_bytes_ + sizeof(std::byte*));
}

void StagedCache::reserve(TokenCount tokens) {
  const std::size_t wanted = blocks_for(tokens);
  if (wanted <= room_) return;
  for (const Stream* stream : {&computing_, &copying_, &std::as_const(storing_)}) stream->wait();
  room_ = 0;
  for (Side& side : sides_) make_room(side, wanted);
  room_ = wanted;
}

void StagedCache::begin() {
  fetched_ = taken_ = 0;
  stored_.make_wait(copying_);  // blocks stored by earlier batches may be fetched
}

void StagedCache::fetch(int layer, TokenCount cached) {
  Side& side = sides_[fetched_++ % 2];
  side.stored.make_wait(copying_);
  const TokenCount blocks = (cached + host_.block_tokens() - 1) / host_.block_tokens();
  const std::size_t bytes = layer_bytes(layer);
  for (TokenCount i = 0; i < blocks; ++i)
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(side.blocks.as() + std::size_t(i) * block_bytes_,
                                      host_.block(layer, i), bytes, cudaMemcpyHostToDevice,
                                      copying_.get()));
  bytes_.to_gpu += double(blocks) * double(bytes);
  side.fetched.set(copying_);
}

void StagedCache::acquire() { sides_[taken_++ % 2].fetched.make_wait(computing_); }

void StagedCache::store(int layer, TokenCount cached, TokenCount tokens) {
  Side& side = sides_[(taken_ - 1) % 2];
  side.written.set(computing_);
  side.written.make_wait(storing_);
  const TokenCount first = cached / host_.block_tokens();
  const TokenCount last = (cached + tokens - 1) / host_.block_tokens();
  const std::size_t bytes = layer_bytes(layer);
  for (TokenCount i = first; i <= last; ++i)
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(host_.block(layer, i),
                                      side.blocks.as() + std::size_t(i) * block_bytes_, bytes,
                                      cudaMemcpyDeviceToHost, storing_.get()));
  bytes_.to_host += double(last - first + 1) * double(bytes);
  side.stored.set(storing_);
  stored_.set(storing_);
}

}  // namespace rigcast::engine::cuda
