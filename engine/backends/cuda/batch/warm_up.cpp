#include "engine/backends/cuda/batch/warm_up.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "core/scenario/batch_limits.hpp"

namespace rigcast::engine::cuda {

void warm_up_prompts(BatchExecutor& executor) {
  constexpr TokenCount kApart = 32;  // half of the narrowest tile of those kernels, or less
  const BatchLimits limits = executor.limits();
  const TokenCount longest =
      std::min(limits.step_tokens, TokenCount(limits.blocks) * limits.block_tokens);
  std::vector<int> blocks(
      static_cast<std::size_t>((longest + limits.block_tokens - 1) / limits.block_tokens));
  std::iota(blocks.begin(), blocks.end(), 0);
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(longest), 0);
  // Fewer tokens are multiplied by kernels that the program itself holds.
  for (TokenCount count = kMaxSmallBatch + 1; count <= longest; count += kApart) {
    const SequenceStep step{std::span(tokens).first(std::size_t(count)), 0, blocks, nullptr};
    static_cast<void>(executor.step({&step, 1}));
  }
}

}  // namespace rigcast::engine::cuda
