#include "engine/backends/cuda/batch/step_blocks.cuh"

#include <algorithm>

#include "core/base/error.hpp"

namespace rigcast::engine::cuda {
namespace {

constexpr int kNowhere = -1;

}  // namespace

StepBlocks::StepBlocks(const BlockMemory& memory, ColdRing* ring, TokenCount block_tokens)
    : memory_(memory),
      ring_(ring),
      block_(block_tokens),
      slots_(std::size_t(memory.pool().cold), kNowhere) {
  RIGCAST_ASSERT((ring ? ring->slots() : 0) >= memory.pool().cold);
}

// Slots in the order of blocks: neighbours in the host's memory are neighbours in the ring, and are
// copied together.
void StepBlocks::number(std::span<const SequenceStep> sequences) {
  for (const int block : blocks_) slot(block) = kNowhere;
  blocks_.clear();
  for (const SequenceStep& s : sequences) {
    const auto needed = std::size_t(blocks_for(s.cached + TokenCount(s.tokens.size())));
    for (const int block : s.blocks.first(needed))
      if (memory_.is_cold(block)) blocks_.push_back(block);
  }
  std::ranges::sort(blocks_);
  blocks_.erase(std::unique(blocks_.begin(), blocks_.end()), blocks_.end());
  for (std::size_t i = 0; i < blocks_.size(); ++i) slot(blocks_[i]) = int(i);
  filled_.assign(blocks_.size(), false);
  for (const SequenceStep& s : sequences)
    for (const int block : s.blocks.first(std::size_t(blocks_for(s.cached))))
      if (memory_.is_cold(block)) filled_[std::size_t(slot(block))] = true;
}

// Blocks without tokens are not copied: what the ring holds there is not read, as what a block of
// the GPU holds of a sequence before.
std::vector<ColdRing::Fetch> StepBlocks::fetches() const {
  std::vector<ColdRing::Fetch> runs;
  int next = kNowhere;  // the block that would extend the last run
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (!filled_[i]) continue;
    const int block = blocks_[i];
    if (block == next)
      ++runs.back().blocks;
    else
      runs.push_back({int(i), 1, memory_.cold_block(block)});
    next = memory_.cold_in_a_row(block) > 1 ? block + 1 : kNowhere;
  }
  return runs;
}

std::vector<ColdRing::Store> StepBlocks::stores(std::span<const SequenceStep> sequences) const {
  std::vector<ColdRing::Store> all;
  for (const SequenceStep& s : sequences) {
    const TokenCount end = s.cached + TokenCount(s.tokens.size());
    for (TokenCount at = s.cached; at < end;) {
      const TokenCount of_block = at % block_, count = std::min(block_ - of_block, end - at);
      const int block = s.blocks[std::size_t(at / block_)];
      if (memory_.is_cold(block))
        all.push_back({slot(block), int(of_block), int(count), memory_.cold_block(block)});
      at += count;
    }
  }
  return all;
}

bool StepBlocks::place(std::span<const SequenceStep> sequences) {
  if (!ring_) return false;
  number(sequences);
  ring_->plan({fetches(), stores(sequences)});
  return ring_->is_used();
}

std::byte* StepBlocks::address(int block) const {
  if (!ring_ || !memory_.is_cold(block)) return memory_.block(block);
  const int in_ring = slot(block);
  return in_ring == kNowhere ? unused_block() : ring_->place(in_ring);
}

}  // namespace rigcast::engine::cuda
