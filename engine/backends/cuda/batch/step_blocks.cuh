#pragma once
// Where kernels find the blocks of a step: on the GPU, or in the ring through which cold ones pass.

#include <span>
#include <vector>

#include "engine/backends/cuda/batch/block_memory.cuh"
#include "engine/backends/cuda/kv/cold_ring.cuh"
#include "engine/run/batch_executor.hpp"

namespace rigcast::engine::cuda {

class StepBlocks {
 public:
  /// `ring`: with a slot for every cold block of the pool, which is the most that a step has;
  /// nullptr: none is cold. Both outlive this object.
  StepBlocks(const BlockMemory& memory, ColdRing* ring, TokenCount block_tokens);

  /// Gives each cold block of a step a slot, and plans its copies. Sequences may share blocks with
  /// tokens before their new ones. Returns true if there are cold blocks.
  bool place(std::span<const SequenceStep> sequences);
  /// Where the step's kernels find a block. A cold block that no sequence of the step needs is
  /// nowhere: the unused block stands for it.
  std::byte* address(int block) const;
  std::byte* unused_block() const { return memory_.unused_block(); }

 private:
  TokenCount blocks_for(TokenCount tokens) const { return (tokens + block_ - 1) / block_; }
  int& slot(int block) { return slots_[std::size_t(block - memory_.pool().on_gpu)]; }
  int slot(int block) const { return slots_[std::size_t(block - memory_.pool().on_gpu)]; }
  void number(std::span<const SequenceStep> sequences);
  std::vector<ColdRing::Fetch> fetches() const;
  std::vector<ColdRing::Store> stores(std::span<const SequenceStep> sequences) const;

  const BlockMemory& memory_;
  ColdRing* ring_;
  TokenCount block_;
  std::vector<int> slots_;  // of the pool's cold blocks; kNowhere: not of the step
  // Of the step: cold blocks by slot, and whether tokens of earlier steps are in them.
  std::vector<int> blocks_;
  std::vector<bool> filled_;
};

}  // namespace rigcast::engine::cuda
