#include "engine/backends/cuda/kv/cold_blocks.cuh"

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"
#include "engine/kernels/cuda/kv/dequantize_kv.cuh"
#include "engine/kernels/cuda/kv/quantize_kv_block.cuh"

namespace rigcast::engine::cuda {
namespace {

// The layout of a single layer in other types.
Cache layer_in(const Cache& like, const KvTypes& types) {
  Cache c = like;
  const auto row = [&](QuantFormat type) {
    return int(tensor_bytes(type, std::uint64_t(like.head_dim), 1));
  };
  c.k_type = types.k, c.v_type = types.v;
  c.k_row = row(types.k), c.v_row = row(types.v);
  return c;
}

}  // namespace

ColdBlocks::ColdBlocks(Vram& vram, const ModelSpec& spec, const Cache& hot, KvTypes types,
                       const std::vector<int>& layers, Allocator memory)
    : vram_(vram),
      hot_(hot),
      types_(types),
      layers_(layers),
      host_(spec, types, hot.block_tokens, layers, std::move(memory), kColdPieceBlocks) {
  if (!converts_type()) return;
  RIGCAST_ASSERT(hot.k_type == QuantFormat::kF16 && hot.v_type == QuantFormat::kF16);
  quantized_block_ = vram_.allocate(layers.size() * std::size_t(layer_bytes()), "KV on its way");
}

// The index of a layer's place in the ring: the number of layers before it.
int ColdBlocks::place_in_ring(int layer) const {
  return layer / group_layers_ % 2 * group_layers_ + layer % group_layers_;
}

std::byte* ColdBlocks::slot(int layer) const {
  return slots_.as<std::byte>() + place_in_ring(layer) * room_ * layer_bytes();
}

std::byte* ColdBlocks::place_of(int layer, TokenCount index) const {
  std::byte* const first = converts_type() ? dequantized_.as<std::byte>() : slot(layer);
  return first + (index - layer) * hot_.layer_bytes();
}

void ColdBlocks::begin_moving(const std::byte* block) {
  const TokenCount index = count_ + moving_;
  host_.reserve((index + 1) * hot_.block_tokens);
  const std::byte* from = block;
  if (converts_type()) {
    quantize_kv_block(out_, hot_, int(layers_.size()), block, layer_in(hot_, types_),
                      quantized_block_.as<std::byte>());
    from = quantized_block_.as<std::byte>();
  }
  const auto bytes = std::size_t(layer_bytes());
  for (std::size_t i = 0; i < layers_.size(); ++i)
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(host_.block(layers_[i], index), from + i * bytes, bytes,
                                      cudaMemcpyDeviceToHost, out_.get()));
  ++moving_;
  moved_bytes_ += double(layers_.size() * bytes);
}

void ColdBlocks::finish_moving() {
  if (moving_ == 0) return;
  out_.wait();
  count_ += std::exchange(moving_, 0);
}

bool ColdBlocks::make_room() {
  if (count_ <= room_) return false;
  // The old ring is not read between two steps.
  room_ = 0;  // until everything is allocated
  prepared_.reset();
  slots_ = {};
  dequantized_ = {};
  lists_ = {};
  allocate_ring(kv_ring(count_, layers(), layer_bytes()));
  return true;
}

void ColdBlocks::allocate_ring(const KvRing& ring) {
  const TokenCount room = ring.blocks;
  const std::int64_t slot_bytes = room * layer_bytes();
  const int ring_layers = ring.layers();
  group_layers_ = ring.group_layers;
  slots_ = vram_.allocate(std::size_t(ring_layers * slot_bytes), "KV on its way");
  if (converts_type())
    dequantized_ = vram_.allocate(std::size_t(room * hot_.layer_bytes()), "KV on its way");
  lists_ =
      vram_.allocate(std::size_t((ring_layers + 1) * room) * sizeof(std::byte*), "KV on its way");
  std::vector<std::byte*> lists;
  for (TokenCount b = 0; b < ring_layers * room; ++b)
    lists.push_back(slots_.as<std::byte>() + b * layer_bytes());
  for (TokenCount b = 0; b < room; ++b)
    lists.push_back(dequantized_.as<std::byte>() + b * hot_.layer_bytes());
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(lists_.as(), lists.data(), lists.size() * sizeof lists[0],
                                    cudaMemcpyHostToDevice, in_.get()));
  in_.wait();
  room_ = room;
}

void ColdBlocks::truncate(TokenCount count) {
  finish_moving();
  in_.wait();  // a failed step may have left copies in flight
  prepared_.reset();
  count_ = std::min(count_, count);
  host_.truncate(count_ * hot_.block_tokens);
}

void ColdBlocks::prepare_token(TokenCount first) {
  first_ = std::min(first, count_);
  const std::pair wanted{first_, count_};
  if (first_ == count_ || prepared_ == wanted) return;
  prepared_.reset();
  marks_ = nullptr;
  fetch(0);
  in_.wait();
  prepared_ = wanted;
  prepared_bytes_ += double((count_ - first_) * layer_bytes()) * double(group_layers_);
}

void ColdBlocks::begin_step(const Stream& compute, TokenCount first, bool token,
                            CopyTracer* marks) {
  marks_ = marks;
  first_ = std::min(first, count_);
  token_ = token;
  prepared_.reset();  // until the step's end
  if (first_ == count_) return;
  begun_.record(compute);
  begun_.hold(in_);
  if (!token_) fetch(0);
  if (groups() > 1) fetch(1);
}

// Copies a group's blocks in as few copies as possible: each copy lengthens the launch of a
// captured step.
void ColdBlocks::fetch(int group) {
  const int first = group * group_layers_, end = std::min(first + group_layers_, layers());
  const auto from = [&](int layer, TokenCount block) {
    return host_.block(layers_[std::size_t(layer)], block);
  };
  const auto pitch = std::size_t(room_ * layer_bytes());
  const auto bytes = double((count_ - first_) * layer_bytes()) * double(end - first);
  if (marks_) marks_->begin_copy(ActivityKind::kFetchKv, layers_[std::size_t(first)], in_);
  for (TokenCount b = first_; b < count_;) {
    const TokenCount blocks = std::min(host_.blocks_in_a_row(b), count_ - b);
    const auto width = std::size_t(blocks * layer_bytes());
    const auto between = end - first > 1 ? std::size_t(from(first + 1, b) - from(first, b)) : width;
    RIGCAST_CUDA_CALL(cudaMemcpy2DAsync(slot(first) + b * layer_bytes(), pitch, from(first, b),
                                        between, width, std::size_t(end - first),
                                        cudaMemcpyHostToDevice, in_.get()));
    b += blocks;
  }
  if (marks_) marks_->end_copy(in_, bytes);
  ready_[group % 2].record(in_);
}

bool ColdBlocks::await(const Stream& compute, int layer) {
  if (first_ == count_) return false;
  const int group = layer / group_layers_;
  const bool is_late = layer % group_layers_ == 0 && !(token_ && group == 0);
  if (is_late) ready_[group % 2].hold(compute);
  if (converts_type()) dequantize(compute, layer);
  return is_late || converts_type();
}

void ColdBlocks::dequantize(const Stream& compute, int layer) {
  Cache from = layer_in(hot_, types_), to = hot_;
  from.blocks = lists_.as<std::byte*>() + place_in_ring(layer) * room_;
  to.blocks = lists_.as<std::byte*>() + 2 * group_layers_ * room_;
  dequantize_kv_blocks(compute, from,
                       {int(first_) * hot_.block_tokens, int(count_) * hot_.block_tokens}, to);
}

void ColdBlocks::done(const Stream& compute, int layer) {
  const int group = layer / group_layers_, next = group + 2;
  const bool is_last = layer + 1 == layers() || (layer + 1) % group_layers_ == 0;
  const bool is_for_next_token = token_ && next >= groups() && group % 2 == 0;
  if (first_ == count_ || !is_last || (next >= groups() && !is_for_next_token)) return;
  free_[group % 2].record(compute);
  free_[group % 2].hold(in_);
  fetch(is_for_next_token ? 0 : next);
}

void ColdBlocks::end_step(const Stream& compute) {
  if (!token_ || first_ == count_) return;
  ready_[0].hold(compute);
  prepared_ = {first_, count_};
}

void ColdBlocks::copy_back(TokenCount index, std::byte* block) {
  prepared_.reset();
  const auto bytes = std::size_t(layer_bytes());
  for (int layer = 0; layer < int(layers_.size()); ++layer) {
    std::byte* const to =
        converts_type() ? slot(0) + index * layer_bytes() : block + layer * hot_.layer_bytes();
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(to, host_.block(layers_[std::size_t(layer)], index), bytes,
                                      cudaMemcpyHostToDevice, in_.get()));
    if (!converts_type()) continue;
    Cache from = layer_in(hot_, types_), wide = hot_;
    from.blocks = lists_.as<std::byte*>();
    wide.blocks = lists_.as<std::byte*>() + 2 * group_layers_ * room_;
    dequantize_kv_blocks(
        in_, from, {int(index) * hot_.block_tokens, int(index + 1) * hot_.block_tokens}, wide);
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(block + layer * hot_.layer_bytes(),
                                      dequantized_.as<std::byte>() + index * hot_.layer_bytes(),
                                      std::size_t(hot_.layer_bytes()), cudaMemcpyDeviceToDevice,
                                      in_.get()));
  }
  in_.wait();
}

double ColdBlocks::step_bytes() const {
  return double((count_ - first_) * layer_bytes()) * double(layers());
}

double ColdBlocks::take_moved_bytes() { return std::exchange(moved_bytes_, 0.0); }

double ColdBlocks::take_prepared_bytes() { return std::exchange(prepared_bytes_, 0.0); }

}  // namespace rigcast::engine::cuda
