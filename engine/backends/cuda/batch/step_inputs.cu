#include "engine/backends/cuda/batch/step_inputs.cuh"

#include <algorithm>

#include "core/base/error.hpp"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {
namespace {

int most_rows(const BatchLimits& limits) { return int(limits.step_tokens) + kRowPadding; }

// Tables are as long as the longest context of a step, rounded up.
std::size_t longest_table(const BatchLimits& limits) {
  const TokenCount tokens = padded_context(limits.blocks * limits.block_tokens);
  return std::size_t((tokens + limits.block_tokens - 1) / limits.block_tokens);
}

std::size_t header_bytes(int rows) { return (4 * std::size_t(rows) * 4 + 15) / 16 * 16; }

std::size_t table_bytes(const BatchLimits& limits) {
  return std::size_t(limits.step_sequences + kRowPadding) * longest_table(limits) *
         sizeof(std::byte*);
}

std::size_t all_bytes(const BatchLimits& limits) {
  return header_bytes(most_rows(limits)) + table_bytes(limits) * (limits.window_blocks > 0 ? 2 : 1);
}

}  // namespace

StepInputs::StepInputs(Vram& vram, const BatchLimits& limits)
    : tokens_(most_rows(limits)),
      header_bytes_(header_bytes(tokens_)),
      table_bytes_(table_bytes(limits)),
      memory_(vram.allocate(all_bytes(limits), "activations")),
      staging_(all_bytes(limits), "inputs of a step") {}

void StepInputs::place(std::span<const SequenceStep> sequences, const RowOrder& order,
                       const StepShape& shape, bool all_logits, const StepBlocks& blocks,
                       const BlockMemory* windows, const Stream& stream) {
  auto* const ids = staging_.as<std::int32_t>();
  std::int32_t* const positions = ids + tokens_;
  std::int32_t* const owners = positions + tokens_;
  std::int32_t* const states = owners + tokens_;
  auto* const tables = reinterpret_cast<std::byte**>(staging_.as<std::byte>() + header_bytes_);
  std::byte** const window_tables = tables + table_bytes_ / sizeof(std::byte*);
  chunks_.clear();
  int row = 0, table = 0;
  const auto add = [&](const SequenceStep& s) {
    for (std::size_t i = 0; i < s.tokens.size(); ++i, ++row) {
      ids[row] = s.tokens[i];
      positions[row] = std::int32_t(s.cached) + std::int32_t(i);
      owners[row] = table;
      states[row] = s.state;
    }
    const std::size_t listed = std::min(s.blocks.size(), std::size_t(shape.table));
    const std::int64_t first = std::int64_t(table) * shape.table;
    for (std::size_t b = 0; b < listed; ++b)
      tables[first + std::int64_t(b)] = blocks.address(s.blocks[b]);
    for (std::size_t b = 0; windows && b < listed; ++b)
      window_tables[first + std::int64_t(b)] = windows->block(s.window_blocks[b]);
    ++table;
  };
  for (const int i : order.singles) add(sequences[std::size_t(i)]);
  for (; row < shape.singles; ++row, ++table) {
    ids[row] = positions[row] = 0;
    states[row] = -1;
    owners[row] = table;
    tables[std::int64_t(table) * shape.table] = blocks.unused_block();
    if (windows) window_tables[std::int64_t(table) * shape.table] = windows->unused_block();
  }
  for (const int i : order.chunks) {
    const SequenceStep& s = sequences[std::size_t(i)];
    chunks_.push_back({row, int(s.tokens.size()), table, s.cached, all_logits || s.sampler});
    add(s);
  }
  const auto used = std::size_t(table) * std::size_t(shape.table) * sizeof(std::byte*);
  RIGCAST_ASSERT(row <= tokens_ && used <= table_bytes_);
  const auto send = [&](std::size_t at, std::size_t bytes) {
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(memory_.as<std::byte>() + at, staging_.as<std::byte>() + at,
                                      bytes, cudaMemcpyHostToDevice, stream.get()));
  };
  send(0, header_bytes_ + used);
  if (windows) send(header_bytes_ + table_bytes_, used);
}

}  // namespace rigcast::engine::cuda
