#include "engine/backends/cuda/batch/warm_up.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "core/scenario/batch_limits.hpp"
#include "engine/backends/cuda/batch/step_rows.hpp"

namespace rigcast::engine::cuda {
namespace {

constexpr std::int32_t kToken = 0;

// Lengths of prompts, of which no two run the same kernels. Up to kMaxSmallBatch tokens the
// program's own are chosen: one for each number up to 8, then one for every 8 tokens. Above, cuBLAS
// chooses, half of its narrowest tile apart, or less; Hopper's own tiles are wider.
std::vector<TokenCount> lengths_of_prompts(TokenCount longest) {
  constexpr TokenCount kEach = 8, kApartSmall = 4, kApart = 32;
  std::vector<TokenCount> all;
  TokenCount tokens = 2;
  while (tokens <= longest) {
    all.push_back(tokens);
    if (tokens < kEach)
      tokens += 1;
    else if (tokens < kMaxSmallBatch)
      tokens += kApartSmall;
    else
      tokens += tokens == kMaxSmallBatch ? 1 : kApart;
  }
  return all;
}

// Blocks of windows, where these are apart: any will do, since no result is looked at.
std::vector<int> any_windows(std::size_t blocks) { return std::vector<int>(blocks, 0); }

// A prompt behind a cached block, and beside it a token of another sequence.
void step_of_both_kinds(BatchExecutor& executor, std::span<const int> blocks,
                        std::span<const std::int32_t> tokens) {
  const BatchLimits limits = executor.limits();
  const TokenCount count = std::min(limits.block_tokens, limits.step_tokens - 1);
  if (blocks.size() < 3 || limits.step_sequences < 2 || count < 2) return;
  const std::vector<int> windows = any_windows(2);
  const SequenceStep steps[] = {
      {tokens.first(std::size_t(count)), limits.block_tokens, blocks.first(2), nullptr, 0, windows},
      {{&kToken, 1}, 0, blocks.subspan(2, 1), nullptr, 1, windows}};
  static_cast<void>(executor.step(steps));
}

// Sequences that share the blocks of all tokens but the last `context` has, each with a block of
// its own for that one; fewer than `rows` if the pool has too few blocks.
class SharedContext {
 public:
  SharedContext(const BatchLimits& limits, TokenCount context)
      : cached_(context - 1),
        shared_(int(cached_ / limits.block_tokens)),
        windows_(any_windows(std::size_t(shared_) + 1)) {
    const int blocks = limits.blocks - limits.cold_blocks;
    tables_.resize(std::size_t(std::clamp(blocks - shared_, 0, limits.step_sequences)));
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      tables_[i].resize(std::size_t(shared_) + 1);
      std::iota(tables_[i].begin(), tables_[i].end(), 0);
      tables_[i].back() = shared_ + int(i);
    }
  }

  int rows() const { return int(tables_.size()); }
  std::vector<SequenceStep> steps(int rows, std::vector<Sampler>* samplers) const {
    std::vector<SequenceStep> all;
    for (std::size_t i = 0; i < std::size_t(rows); ++i)
      all.push_back({{&kToken, 1},
                     cached_,
                     tables_[i],
                     samplers ? &(*samplers)[i] : nullptr,
                     int(i),
                     windows_});
    return all;
  }

 private:
  TokenCount cached_;
  int shared_;
  std::vector<int> windows_;
  std::vector<std::vector<int>> tables_;
};

}  // namespace

void warm_up_prompts(BatchExecutor& executor) {
  const BatchLimits limits = executor.limits();
  const TokenCount longest =
      std::min(limits.step_tokens, TokenCount(limits.blocks) * limits.block_tokens);
  std::vector<int> blocks(
      static_cast<std::size_t>((longest + limits.block_tokens - 1) / limits.block_tokens));
  std::iota(blocks.begin(), blocks.end(), 0);
  const std::vector<int> windows = any_windows(blocks.size());
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(longest), kToken);
  for (const TokenCount count : lengths_of_prompts(longest)) {
    const SequenceStep step{
        std::span(tokens).first(std::size_t(count)), 0, blocks, nullptr, 0, windows};
    static_cast<void>(executor.step({&step, 1}));
  }
  step_of_both_kinds(executor, blocks, tokens);
}

void warm_up_decode(BatchExecutor& executor) {
  const BatchLimits limits = executor.limits();
  std::vector<Sampler> samplers(std::size_t(limits.step_sequences), Sampler({.temperature = 1}));
  for (const TokenCount context : {512, 1024, 2048}) {
    const SharedContext shared(limits, context);
    for (int rows = 1; rows <= shared.rows(); ++rows) {
      if (padded_rows(rows) != rows && rows != shared.rows()) continue;
      static_cast<void>(executor.step(shared.steps(rows, nullptr)));
      static_cast<void>(executor.step(shared.steps(rows, &samplers)));
    }
  }
}

}  // namespace rigcast::engine::cuda
