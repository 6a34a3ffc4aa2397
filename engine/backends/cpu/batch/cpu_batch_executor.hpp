#pragma once
// The CPU's executor of many sequences: a step's tokens, of whichever sequence, go through all
// layers together, and weights are read once for all of them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/backends/cpu/batch/cpu_blocks.hpp"
#include "engine/backends/cpu/batch/placed_rows.hpp"
#include "engine/backends/cpu/cpu_layers.hpp"
#include "engine/memory/ram.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/run/lost_states.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {

/// A step of one token takes the same way as CpuExecutor's, and gives the same bits. In longer
/// steps the bits of a sequence depend on its own tokens alone: not on other sequences, on their
/// number, on the blocks that hold it, or on the number of threads.
class CpuBatchExecutor : public BatchExecutor {
 public:
  /// All memory is charged here: weights, both pools, states of as many sequences as a step may
  /// have and their checkpoints, and the buffers of the longest step. Throws
  /// MachineError if threads cannot be made, ShortOfMemory if options.ram has too little, and what
  /// options.kv_memory throws. `limits` are all at least 1, but for host_blocks,
  /// checkpoints and window_blocks.
  CpuBatchExecutor(std::shared_ptr<const Model> model, const CpuOptions& options,
                   const BatchLimits& limits);

  std::span<const std::int32_t> step(std::span<const SequenceStep> sequences) override;
  std::span<const float> logits(std::span<const SequenceStep> sequences) override;
  void move_out(std::span<const BlockCopy> copies) override { blocks_.move_out(team_, copies); }
  void move_in(std::span<const BlockCopy> copies) override { blocks_.move_in(team_, copies); }
  void copy_state(int from, int to) override;
  std::size_t block_bytes() const override { return blocks_.block_bytes(); }
  void read_block(int block, std::span<std::byte> to) override { blocks_.read(block, to); }
  void write_block(int block, std::span<const std::byte> from) override {
    blocks_.write(block, from);
  }
  /// Stores random keys and values as tokens [0, tokens) of a sequence: a depth to decode at,
  /// without its prefill. Not where windows are apart.
  void fill(std::span<const int> blocks, TokenCount tokens);

  BatchLimits limits() const override { return limits_; }
  int threads() const override { return team_.size(); }
  const Model& model() const override { return layers_.model(); }
  MovedBytes take_bytes() override;
  DeviceMemory host() const override { return host_memory(ram_); }

 private:
  void check(const SequenceStep& sequence) const;
  void place_rows(std::span<const SequenceStep> sequences);
  /// Computes the rows that were placed, and the logits of last_rows_.
  void compute();
  void sample_all(std::span<const SequenceStep> sequences);

  Ram ram_;
  BatchLimits limits_;
  RamCharge weights_, buffers_;
  ThreadTeam team_;
  CpuLayers layers_;
  CpuBlocks blocks_;
  // Of the step.
  PlacedRows rows_;
  std::vector<std::int64_t> last_rows_;  // whose logits are computed
  std::vector<std::size_t> sampled_;     // sequences that have a sampler
  std::vector<std::int32_t> chosen_;
  LostStates lost_;
  MovedBytes copied_;  // of states
};

}  // namespace rigcast::engine
