#include "engine/runtime/cold_blocks.cuh"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "engine/kernels/cuda/narrow_block.cuh"
#include "engine/kernels/cuda/widen_cache.cuh"

namespace rigcast::engine::cuda {
namespace {

// A copy of 16 blocks of an 8B model's layer is 8 MB: the link's full rate.
constexpr int kPieceBlocks = 16;
constexpr TokenCount kSlotStep = 16;  // blocks by which slots grow

// One layer by itself, in other types.
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
                       const std::vector<int>& layers, MakeMemory memory)
    : vram_(vram),
      hot_(hot),
      types_(types),
      layers_(layers),
      host_(spec, types, hot.block_tokens, layers, std::move(memory), kPieceBlocks) {
  if (!changes_type()) return;
  RIGCAST_ASSERT(hot.k_type == QuantFormat::kF16 && hot.v_type == QuantFormat::kF16);
  narrow_ = vram_.take(layers.size() * std::size_t(cold_layer_bytes()), "KV on its way");
}

std::byte* ColdBlocks::slot(int layer) const {
  return slots_.as<std::byte>() + (layer % 2) * room_ * cold_layer_bytes();
}

std::byte* ColdBlocks::place_of(int layer, TokenCount index) const {
  std::byte* const first = changes_type() ? widened_.as<std::byte>() : slot(layer);
  return first + (index - layer) * hot_.layer_bytes();
}

void ColdBlocks::begin_moving(const std::byte* block) {
  const TokenCount index = count_ + moving_;
  host_.reserve((index + 1) * hot_.block_tokens);
  const std::byte* from = block;
  if (changes_type()) {
    narrow_block(out_, hot_, int(layers_.size()), block, layer_in(hot_, types_),
                 narrow_.as<std::byte>());
    from = narrow_.as<std::byte>();
  }
  const auto bytes = std::size_t(cold_layer_bytes());
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
  const TokenCount room = (count_ + kSlotStep - 1) / kSlotStep * kSlotStep;
  room_ = 0;  // until all is there
  // Nothing reads the old ones between two steps.
  slots_ = {};
  widened_ = {};
  lists_ = {};
  slots_ = vram_.take(std::size_t(2 * room * cold_layer_bytes()), "KV on its way");
  if (changes_type())
    widened_ = vram_.take(std::size_t(room * hot_.layer_bytes()), "KV on its way");
  lists_ = vram_.take(std::size_t(3 * room) * sizeof(std::byte*), "KV on its way");
  std::vector<std::byte*> lists;
  for (TokenCount b = 0; b < 2 * room; ++b)
    lists.push_back(slots_.as<std::byte>() + b * cold_layer_bytes());
  for (TokenCount b = 0; b < room; ++b)
    lists.push_back(widened_.as<std::byte>() + b * hot_.layer_bytes());
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(lists_.as(), lists.data(), lists.size() * sizeof lists[0],
                                    cudaMemcpyHostToDevice, in_.get()));
  in_.wait();
  room_ = room;
  return true;
}

void ColdBlocks::truncate(TokenCount count) {
  finish_moving();
  in_.wait();  // a step that failed may have left copies on their way
  count_ = std::min(count_, count);
  host_.truncate(count_ * hot_.block_tokens);
}

void ColdBlocks::begin_step(const Stream& compute, TokenCount first, CopyMarks* marks) {
  marks_ = marks;
  first_ = std::min(first, count_);
  if (first_ == count_) return;
  begun_.record(compute);
  begun_.hold(in_);
  for (int layer = 0; layer < std::min(2, int(layers_.size())); ++layer) fetch(layer);
}

void ColdBlocks::fetch(int layer) {
  if (marks_) marks_->begin_copy(ActivityKind::kFetchKv, layers_[std::size_t(layer)], in_);
  for (TokenCount b = first_; b < count_;) {
    const TokenCount blocks = std::min(host_.blocks_in_a_row(b), count_ - b);
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(
        slot(layer) + b * cold_layer_bytes(), host_.block(layers_[std::size_t(layer)], b),
        std::size_t(blocks * cold_layer_bytes()), cudaMemcpyHostToDevice, in_.get()));
    b += blocks;
  }
  if (marks_) marks_->end_copy(in_, double((count_ - first_) * cold_layer_bytes()));
  ready_[layer % 2].record(in_);
}

void ColdBlocks::await(const Stream& compute, int layer) {
  if (first_ == count_) return;
  ready_[layer % 2].hold(compute);
  if (changes_type()) widen(compute, layer);
}

void ColdBlocks::widen(const Stream& compute, int layer) {
  Cache from = layer_in(hot_, types_), to = hot_;
  from.blocks = lists_.as<std::byte*>() + layer % 2 * room_;
  to.blocks = lists_.as<std::byte*>() + 2 * room_;
  widen_blocks(compute, from, {int(first_) * hot_.block_tokens, int(count_) * hot_.block_tokens},
               to);
}

void ColdBlocks::done(const Stream& compute, int layer) {
  if (first_ == count_) return;
  free_[layer % 2].record(compute);
  if (layer + 2 >= int(layers_.size())) return;
  free_[layer % 2].hold(in_);
  fetch(layer + 2);
}

void ColdBlocks::bring_back(TokenCount index, std::byte* block) {
  const auto bytes = std::size_t(cold_layer_bytes());
  for (int layer = 0; layer < int(layers_.size()); ++layer) {
    std::byte* const to =
        changes_type() ? slot(0) + index * cold_layer_bytes() : block + layer * hot_.layer_bytes();
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(to, host_.block(layers_[std::size_t(layer)], index), bytes,
                                      cudaMemcpyHostToDevice, in_.get()));
    if (!changes_type()) continue;
    Cache from = layer_in(hot_, types_), wide = hot_;
    from.blocks = lists_.as<std::byte*>();
    wide.blocks = lists_.as<std::byte*>() + 2 * room_;
    widen_blocks(in_, from, {int(index) * hot_.block_tokens, int(index + 1) * hot_.block_tokens},
                 wide);
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(
        block + layer * hot_.layer_bytes(), widened_.as<std::byte>() + index * hot_.layer_bytes(),
        std::size_t(hot_.layer_bytes()), cudaMemcpyDeviceToDevice, in_.get()));
  }
  in_.wait();
}

double ColdBlocks::step_bytes(TokenCount first) const {
  const TokenCount blocks = count_ - std::min(first, count_);
  return double(blocks * cold_layer_bytes()) * double(layers_.size());
}

double ColdBlocks::take_moved_bytes() { return std::exchange(moved_bytes_, 0.0); }

}  // namespace rigcast::engine::cuda
