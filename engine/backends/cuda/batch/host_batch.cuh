#pragma once
// The host's part in steps of several sequences: its share of the pool's blocks, which has the keys
// and values of layers that it attends in, and what it needs to know of a step's rows.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backends/cpu/batch/cpu_blocks.hpp"
#include "engine/backends/cpu/batch/placed_rows.hpp"
#include "engine/backends/cuda/batch/step_rows.hpp"
#include "engine/backends/cuda/host_offload/host_offload.cuh"
#include "engine/memory/ram.hpp"
#include "engine/run/batch_executor.hpp"

namespace rigcast::engine::cuda {

class HostBatch {
 public:
  /// Allocates the host's share of limits.blocks and limits.host_blocks, and charges its buffers of
  /// the longest step. `host`, whose cache is empty, outlives this object. Throws ShortOfMemory,
  /// std::bad_alloc.
  HostBatch(HostOffload& host, const Ram& ram, const BatchLimits& limits);
  /// Bytes of the buffers that are charged.
  static double buffer_bytes(HostOffload& host, const BatchLimits& limits);

  /// Lists the rows of a step, and those whose logits the host computes if the head is there: of
  /// sequences that have a sampler, or of all. The sequences' tables stay where they are.
  void place(std::span<const SequenceStep> sequences, const RowOrder& order, bool all_logits);
  const PlacedRows& rows() const { return rows_; }
  /// Rows whose logits are wanted, as queue_sequences() leaves them, and the sequences whose last
  /// rows these are.
  std::span<const std::int64_t> head_rows() const { return head_rows_; }
  std::span<const std::size_t> head_sequences() const { return head_sequences_; }

  /// ids[sequence] = what its sampler chooses from its logits.
  void sample(std::span<const SequenceStep> sequences, std::span<std::int32_t> ids);
  /// to[sequence][vocabulary] = the logits of each of head_sequences().
  void read_logits(std::span<float> to);

  void move_out(std::span<const BlockCopy> copies) { blocks_.move_out(host_.side.team(), copies); }
  void move_in(std::span<const BlockCopy> copies) { blocks_.move_in(host_.side.team(), copies); }
  std::size_t block_bytes() const { return blocks_.block_bytes(); }
  void read(int block, std::span<std::byte> to) const { blocks_.read(block, to); }
  void write(int block, std::span<const std::byte> from) const { blocks_.write(block, from); }
  /// Bytes that were copied within the host's memory since the last call.
  MovedBytes take_bytes();

 private:
  HostOffload& host_;
  RamCharge buffers_;
  CpuBlocks blocks_;
  // Of the step.
  PlacedRows rows_;
  std::vector<std::int64_t> head_rows_;
  std::vector<std::size_t> head_sequences_;
};

}  // namespace rigcast::engine::cuda
