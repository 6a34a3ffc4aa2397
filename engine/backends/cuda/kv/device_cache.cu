#include "engine/backends/cuda/kv/device_cache.cuh"

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {
namespace {

int bytes_of_row(QuantFormat type, std::int64_t width) {
  const QuantFormatInfo& f = info(type);
  return int(width / f.block_elements * f.block_bytes);
}

// Of latent attention, a row is key and value of all heads, in the type of keys.
Cache latent_layout(const LatentAttention& a, KvTypes types, TokenCount block_tokens) {
  const std::int64_t row = a.kv_lora_rank + a.qk_rope_dim;
  Cache c;
  c.block_tokens = int(block_tokens);
  c.kv_heads = 1;
  c.head_dim = int(row);
  c.k_type = c.v_type = types.k;
  c.k_row = bytes_of_row(types.k, row);
  return c;
}

// The layout of a layer's part of a block.
Cache layout_of(const ModelSpec& spec, int layer, KvTypes types, TokenCount block_tokens) {
  if (spec.mla) return latent_layout(*spec.mla, types, block_tokens);
  Cache c;
  c.block_tokens = int(block_tokens);
  c.kv_heads = spec.kv_heads_of(layer);
  c.head_dim = int(spec.head_dim_of(layer));
  c.k_type = types.k;
  c.v_type = types.v;
  c.k_row = bytes_of_row(types.k, c.head_dim);
  c.v_row = bytes_of_row(types.v, c.head_dim);
  return c;
}

bool are_alike(const Cache& a, const Cache& b) {
  return a.kv_heads == b.kv_heads && a.head_dim == b.head_dim;
}

}  // namespace

DeviceCache::DeviceCache(Vram& vram, const Stream& stream, const ModelSpec& spec,
                         const CacheShape& shape, const std::vector<int>& layers)
    : vram_(vram),
      stream_(stream),
      shape_(shape),
      view_(layout_of(spec, layers.empty() ? 0 : layers.front(), shape.types, shape.block_tokens)),
      place_of_(std::size_t(spec.layers), -1),
      is_ring_(std::size_t(spec.layers)) {
  RIGCAST_ASSERT(!shape.eviction || shape.window_blocks == 0);
  for (int layer = 0; layer < spec.layers; ++layer)
    layouts_.push_back(layout_of(spec, layer, shape.types, shape.block_tokens));
  lay_out(spec, layers);
  RIGCAST_ASSERT(!shape.eviction || is_uniform_);
  const std::size_t lists = shape.eviction            ? std::max<std::size_t>(1, layers.size())
                            : shape.window_blocks > 0 ? 2
                                                      : 1;
  list_ = vram.allocate(lists * kMaxKvBlocks * sizeof(std::byte*), "KV cache");
  view_.blocks = list_.as<std::byte*>();
  if (shape.eviction && layers_ > 0)
    cold_ = std::make_unique<ColdBlocks>(vram, spec, view_, shape.cold_types, layers,
                                         shape.cold_memory);
}

void DeviceCache::lay_out(const ModelSpec& spec, const std::vector<int>& layers) {
  layers_ = ring_layers_ = 0;
  block_bytes_ = ring_block_bytes_ = 0;
  for (const int layer : layers) {
    const bool is_ring = shape_.window_blocks > 0 && !spec.sees_all_tokens(layer);
    is_ring_[std::size_t(layer)] = is_ring;
    place_of_[std::size_t(layer)] = is_ring ? ring_layers_++ : layers_++;
    Cache& own = layouts_[std::size_t(layer)];
    std::size_t& bytes = is_ring ? ring_block_bytes_ : block_bytes_;
    own.first = std::int64_t(bytes);
    bytes += std::size_t(own.layer_bytes());
    is_uniform_ = is_uniform_ && are_alike(own, view_);
  }
}

void DeviceCache::keep_windows_apart(const ModelSpec& spec, TokenCount blocks) {
  RIGCAST_ASSERT(!cold_ && shape_.window_blocks == 0 && pieces_.empty() && blocks_.empty());
  std::vector<int> layers;
  for (int layer = 0; layer < spec.layers; ++layer)
    if (place_of_[std::size_t(layer)] >= 0) layers.push_back(layer);
  shape_.window_blocks = blocks;
  lay_out(spec, layers);
  list_ = VramPiece();
  list_ = vram_.allocate(2 * kMaxKvBlocks * sizeof(std::byte*), "KV cache");
  view_.blocks = list_.as<std::byte*>();
}

const Cache& DeviceCache::block_layout() const {
  RIGCAST_ASSERT(is_uniform_);
  return view_;
}

Cache DeviceCache::view(int layer_of_model) const {
  Cache c = layout(layer_of_model);
  c.blocks = view_.blocks;
  if (cold_) c.blocks += layer(layer_of_model) * std::ptrdiff_t(kMaxKvBlocks);
  if (is_ring_[std::size_t(layer_of_model)]) c.blocks += std::ptrdiff_t(kMaxKvBlocks);
  return c;
}

void DeviceCache::reserve(TokenCount tokens, TokenCount cached) {
  const TokenCount wanted = blocks_for(tokens), have = TokenCount(blocks_.size());
  if (block_bytes_ + ring_block_bytes_ == 0 || (wanted <= have && !(cold_ && cold_->needs_room())))
    return;
  if (wanted > TokenCount(kMaxKvBlocks))
    throw MachineError("the context is longer than the cache can list");
  if (cold_) {
    RIGCAST_ASSERT(hot_blocks_.has_value());
    stream_.wait();  // for writes in progress, and for readers of blocks that move
    finish_evictions();
    move_out(blocks_to_evict(wanted, cold_->count(), *hot_blocks_, cached, view_.block_tokens),
             cached);
  }
  allocate_rings(std::min(wanted, shape_.window_blocks));
  if (block_bytes_ > 0) allocate_blocks(wanted - TokenCount(blocks_.size()), cached);
  while (TokenCount(blocks_.size()) < wanted)
    blocks_.push_back(block_bytes_ > 0 ? pop_free_block() : nullptr);
  if (cold_) make_room(cached);
  send_lists();
}

void DeviceCache::choose_hot_blocks(double reserved_bytes) {
  if (hot_blocks_) return;
  double own = cold_->ring_memory();
  for (const VramPiece& piece : pieces_) own += double(piece.bytes());
  const double held = vram_.held().value, usable = held + vram_.free().value;
  const KvBlockBytes bytes{view_.block_tokens, layers_, view_.layer_bytes(), cold_->layer_bytes(),
                           cold_->converts_type()};
  const double available = shape_.eviction->threshold * usable - (held - own) - reserved_bytes;
  hot_blocks_ = hot_blocks(*shape_.eviction, bytes, available);
}

// Begins to evict the oldest full blocks, so that `blocks` are moving, including those that already
// are.
void DeviceCache::move_out(TokenCount blocks, TokenCount cached) {
  const TokenCount full = cached / view_.block_tokens;
  for (TokenCount i = cold_->moving(); i < blocks; ++i) {
    const TokenCount next = cold_->count() + cold_->moving();
    if (next >= std::min(full, TokenCount(blocks_.size()))) return;
    cold_->begin_moving(blocks_[std::size_t(next)]);
  }
}

void DeviceCache::finish_evictions() {
  const TokenCount before = cold_->count();
  cold_->finish_moving();
  for (TokenCount b = before; b < cold_->count(); ++b)
    free_.push_back(std::exchange(blocks_[std::size_t(b)], nullptr));
}

// Allocates blocks until `count` are free; if memory is short, older blocks are evicted at once.
void DeviceCache::allocate_blocks(TokenCount count, TokenCount cached) {
  while (TokenCount(free_.size()) < count) {
    // Blocks that may be evicted are allocated one by one, so that each can release its memory.
    const std::size_t more = cold_ ? 1 : std::size_t(count) - free_.size();
    try {
      pieces_.push_back(allocate(more * block_bytes_));
    } catch (const ShortOfMemory&) {
      if (!cold_) throw;
      move_out(cold_->moving() + 1, cached);
      if (cold_->moving() == 0) throw;
      finish_evictions();
      continue;
    }
    for (std::size_t i = 0; i < more; ++i)
      free_.push_back(pieces_.back().as<std::byte>() + i * block_bytes_);
  }
}

// Rows are read in units of 16 bytes, also beyond the last row. Those bytes are not used, but must
// be initialized.
VramPiece DeviceCache::allocate(std::size_t bytes) {
  VramPiece piece = vram_.allocate(bytes, "KV cache");
  if (!holds_fp16()) RIGCAST_CUDA_CALL(cudaMemsetAsync(piece.as(), 0, bytes, stream_.get()));
  return piece;
}

void DeviceCache::allocate_rings(TokenCount blocks) {
  const TokenCount more = blocks - TokenCount(ring_blocks_.size());
  if (ring_block_bytes_ == 0 || more <= 0) return;
  ring_pieces_.push_back(allocate(std::size_t(more) * ring_block_bytes_));
  for (TokenCount i = 0; i < more; ++i)
    ring_blocks_.push_back(ring_pieces_.back().as<std::byte>() +
                           std::size_t(i) * ring_block_bytes_);
}

// Makes room for the ring of cold blocks: free blocks release their memory for it, and others are
// evicted.
void DeviceCache::make_room(TokenCount cached) {
  for (;;) {
    try {
      static_cast<void>(cold_->make_room());
      return;
    } catch (const ShortOfMemory&) {
      if (free_.empty()) {
        move_out(cold_->moving() + 1, cached);
        if (cold_->moving() == 0) throw;
        finish_evictions();
      }
      const auto is_free = [&](const VramPiece& p) {
        return std::ranges::find(free_, p.as<std::byte>()) != free_.end();
      };
      std::erase_if(pieces_, is_free);
      free_.clear();
    }
  }
}

std::byte* DeviceCache::pop_free_block() {
  std::byte* const block = free_.back();
  free_.pop_back();
  return block;
}

void DeviceCache::truncate(TokenCount tokens) {
  if (!cold_ || tokens >= TokenCount(blocks_.size()) * view_.block_tokens) return;
  stream_.wait();
  finish_evictions();
  const TokenCount whole = tokens / view_.block_tokens, kept = blocks_for(tokens);
  // The block to which new tokens are written must be on the GPU.
  std::byte* written = nullptr;
  if (kept > whole && whole < cold_->count()) {
    allocate_blocks(1, tokens);
    written = pop_free_block();
    make_room(tokens);
    cold_->copy_back(whole, written);
  }
  while (TokenCount(blocks_.size()) > kept) {
    if (blocks_.back()) free_.push_back(blocks_.back());
    blocks_.pop_back();
  }
  if (written) blocks_[std::size_t(whole)] = written;
  cold_->truncate(whole);
  send_lists();
}

void DeviceCache::list_blocks(std::vector<std::byte*> blocks, std::vector<std::byte*> windows) {
  RIGCAST_ASSERT(!cold_ && pieces_.empty() && ring_pieces_.empty() &&
                 blocks.size() <= kMaxKvBlocks);
  RIGCAST_ASSERT(windows.size() == (ring_layers_ > 0 ? blocks.size() : 0));
  if (blocks == blocks_ && windows == ring_blocks_) return;
  blocks_ = std::move(blocks);
  ring_blocks_ = std::move(windows);
  send_lists();
}

void DeviceCache::send_lists() {
  std::swap(sent_, previously_sent_);
  sent_.arrived.wait();
  sent_.lists.assign(std::size_t(cold_ ? layers_ : ring_layers_ > 0 ? 2 : 1), blocks_);
  const bool are_listed = ring_pieces_.empty();  // with each block of the context
  if (ring_layers_ > 0)
    for (std::size_t b = 0; b < blocks_.size(); ++b)
      sent_.lists[1][b] = ring_blocks_[are_listed ? b : b % std::size_t(shape_.window_blocks)];
  if (cold_) ++generation_;
  for (int layer = 0; layer < int(sent_.lists.size()); ++layer) {
    std::vector<std::byte*>& blocks = sent_.lists[std::size_t(layer)];
    if (blocks.empty()) continue;
    for (TokenCount b = 0; cold_ && b < std::min(cold_->count(), TokenCount(blocks.size())); ++b)
      blocks[std::size_t(b)] = cold_->place_of(layer, b);
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(list_.as<std::byte*>() + std::size_t(layer) * kMaxKvBlocks,
                                      blocks.data(), blocks.size() * sizeof(std::byte*),
                                      cudaMemcpyHostToDevice, stream_.get()));
  }
  sent_.arrived.set(stream_);
}

}  // namespace rigcast::engine::cuda
