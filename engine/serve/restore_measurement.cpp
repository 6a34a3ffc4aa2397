#include "engine/serve/restore_measurement.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/memory/large_pages.hpp"

namespace rigcast::engine {
namespace {

constexpr double kCopiedBytes = double(32) * (1 << 20);  // and a block at least
constexpr double kPromptSeconds = 0.25;

template <class Work>
Seconds time_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return Seconds{std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

int copied_blocks(const BatchExecutor& executor, int of_tier) {
  const int wanted = std::max(1, int(kCopiedBytes / double(executor.block_bytes())));
  return std::min({wanted, of_tier, executor.limits().blocks});
}

void measure_host(BatchExecutor& executor, RestoreRates& rates) {
  const int blocks = copied_blocks(executor, executor.limits().host_blocks);
  std::vector<BlockCopy> copies;
  for (int block = 0; block < blocks; ++block) copies.push_back({block, block});
  executor.move_out(copies);
  executor.finish_copies();
  const Seconds took = time_of([&] {
    executor.move_in(copies);
    executor.finish_copies();
  });
  rates.copied(KvTier::kHost, Bytes{double(executor.block_bytes()) * blocks}, took);
}

void measure_disk(BatchExecutor& executor, BlockStore& store, RestoreRates& rates) {
  const int blocks = copied_blocks(executor, store.blocks());
  const LargePages buffer(store.buffer_bytes());
  for (int block = 0; block < blocks; ++block) {
    executor.read_block(block, {buffer.data(), buffer.size()});
    store.write(block, {buffer.data(), buffer.size()});
  }
  const Seconds took = time_of([&] {
    for (int block = 0; block < blocks; ++block) {
      store.read(block, {buffer.data(), buffer.size()});
      executor.write_block(block, {buffer.data(), buffer.size()});
    }
  });
  rates.copied(KvTier::kDisk, Bytes{double(executor.block_bytes()) * blocks}, took);
}

// Twice as many tokens each time, so that the last ones take most of the time.
void measure_prompts(BatchExecutor& executor, RestoreRates& rates) {
  const BatchLimits limits = executor.limits();
  const TokenCount most =
      std::min(limits.step_tokens, TokenCount(limits.blocks) * limits.block_tokens);
  std::vector<int> blocks(std::size_t((most + limits.block_tokens - 1) / limits.block_tokens));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(most));
  for (std::size_t i = 0; i < tokens.size(); ++i)  // of a model with experts, not the same always
    tokens[i] = std::int32_t((i * 7919) % std::size_t(executor.model().spec.vocabulary));
  for (TokenCount count = std::min<TokenCount>(16, most);; count = std::min(count * 2, most)) {
    const SequenceStep step{std::span(tokens).first(std::size_t(count)), 0, blocks, nullptr};
    const Seconds took = time_of([&] { executor.step({&step, 1}); });
    if (took.value < kPromptSeconds && count < most) continue;
    rates.computed(count, took);
    return;
  }
}

}  // namespace

Result<RestoreRates> measure_rates(BatchExecutor& executor, BlockStore* store) {
  RestoreRates rates;
  if (executor.limits().host_blocks > 0) measure_host(executor, rates);
  if (store) {
    try {
      measure_disk(executor, *store, rates);
    } catch (const MachineError& error) {
      return Error{ErrorKind::kMachine, error.what(), "another folder for --kv-disk", {}};
    }
  }
  measure_prompts(executor, rates);
  return rates;
}

}  // namespace rigcast::engine
