#pragma once
// Sequences that decode together on a GPU, or on a GPU and its host.

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backends/cuda/make_cuda_executor.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/executor/whole_models.hpp"
#include "tests/engine/executor_fixture.hpp"

namespace rigcast::engine::fixtures {

inline std::unique_ptr<BatchExecutor> batch_on_gpu(const TinyModel& tiny,
                                                   ExecutorOptions options = {},
                                                   BatchOptions pool = {}) {
  if (!pool.blocks) pool.blocks = 64;
  options.kv_block = 32;
  auto made = make_cuda_batch_executor(std::make_shared<const Model>(tiny.model), options, pool);
  if (!made) FAIL(made.error().text());
  return *std::move(made);
}

// A sequence whose tokens are known, and the blocks that it has.
struct Known {
  std::vector<std::int32_t> tokens;
  std::vector<int> blocks;
  TokenCount cached = 0;
  int state = 0;

  SequenceStep next(TokenCount count) {
    const SequenceStep step{std::span(tokens).subspan(std::size_t(cached), std::size_t(count)),
                            cached, blocks, nullptr, state};
    cached += count;
    return step;
  }
};

// Sequences of `length` tokens, with blocks of 32 tokens spread over the pool.
inline std::vector<Known> sequences_of(int count, TokenCount length, std::int64_t vocabulary) {
  std::vector<Known> all(static_cast<std::size_t>(count));
  const int blocks = int((length + 31) / 32);
  for (int s = 0; s < count; ++s) {
    all[std::size_t(s)].tokens = prompt_of(std::size_t(length + s), vocabulary);
    std::reverse(all[std::size_t(s)].tokens.begin(), all[std::size_t(s)].tokens.end());
    all[std::size_t(s)].tokens.resize(std::size_t(length));
    all[std::size_t(s)].state = s;
    for (int b = 0; b < blocks; ++b)
      all[std::size_t(s)].blocks.push_back((b * count + (count - 1 - s)) % (blocks * count));
  }
  return all;
}

// All logits of sequences that begin with chunks of different lengths, and decode together then.
inline std::vector<std::vector<float>> decoded_together(BatchExecutor& executor,
                                                        std::vector<Known> sequences,
                                                        TokenCount begin) {
  const auto width = std::size_t(executor.model().spec.vocabulary);
  std::vector<std::vector<float>> logits(sequences.size());
  std::vector<SequenceStep> steps;
  for (std::size_t i = 0; i < sequences.size(); ++i)
    steps.push_back(sequences[i].next(begin + TokenCount(i)));
  const TokenCount length = TokenCount(sequences.front().tokens.size());
  while (!steps.empty()) {
    const auto rows = executor.logits(steps);
    for (std::size_t i = 0; i < steps.size(); ++i)
      logits[i].insert(logits[i].end(), rows.begin() + std::ptrdiff_t(i * width),
                       rows.begin() + std::ptrdiff_t((i + 1) * width));
    steps.clear();
    for (Known& s : sequences)
      if (s.cached < length) steps.push_back(s.next(1));
    if (steps.size() < sequences.size()) break;
  }
  return logits;
}

inline double batch_bound(const TinyTraits& t, const std::string& mix) {
  return half_bound(t) + (is_float(mix) ? 0 : rounding_bound(t));
}

/// Checks the logits of a sequence's last tokens against the reference's.
inline void check_logits(const TinyTraits& t, const std::vector<float>& got,
                         std::vector<std::vector<float>> want) {
  want.resize(got.size() / std::size_t(t.vocabulary));
  const Agreement a = compare(got, want);
  const double bound = batch_bound(t, t.mix);
  CAPTURE(a.mean_kl, a.nmse, a.top1, a.widest_lost_margin, bound);
  CHECK(a.mean_kl <= (is_float(t.mix) ? 1e-3 : 5e-3));
  CHECK(a.nmse <= bound);
  CHECK(a.widest_lost_margin <= 6 * std::sqrt(2 * bound));
}

/// Checks sequences that decode together, and one alone, against the scalar reference, for each of
/// `ways`. `tiny`: a model of these traits.
inline void check_batch_against_reference(const TinyTraits& traits, const TinyModel& tiny,
                                          const std::vector<ExecutorOptions>& ways) {
  const auto sequences = sequences_of(5, 60, traits.vocabulary);
  const std::size_t checked[] = {0, 3};  // the reference takes most of the time
  std::vector<std::vector<std::vector<float>>> want;
  for (const std::size_t s : checked) {
    auto rows = reference_logits(tiny, sequences[s].tokens);
    rows.erase(rows.begin(), rows.begin() + 20 + std::ptrdiff_t(s) - 1);
    want.push_back(std::move(rows));
  }
  for (std::size_t way = 0; way < ways.size(); ++way) {
    INFO(traits.architecture << " " << traits.mix << " way " << way);
    const auto executor = batch_on_gpu(tiny, ways[way]);
    const auto logits = decoded_together(*executor, sequences, 20);
    check_logits(traits, logits[0], want[0]);
    check_logits(traits, logits[3], want[1]);
    check_logits(traits, decoded_together(*executor, {sequences[0]}, 20)[0], want[0]);
  }
}

inline void check_batch_against_reference(const TinyTraits& traits,
                                          const std::vector<ExecutorOptions>& ways) {
  check_batch_against_reference(traits, model_of(traits), ways);
}

inline std::vector<float> copy(std::span<const float> values) {
  return {values.begin(), values.end()};
}

/// Logits of the next tokens of two sequences that share the blocks of their first 64, which are
/// the same; checks that they agree. The vocabulary has 500 tokens.
inline std::vector<float> logits_over_shared_prefix(BatchExecutor& executor) {
  Known first{prompt_of(70, 500), {1, 2, 3}, 0};
  Known other = first;
  other.blocks = {1, 2, 7};
  other.cached = 64;
  const SequenceStep prompt = first.next(64);
  static_cast<void>(executor.logits({&prompt, 1}));
  const SequenceStep both[] = {first.next(1), other.next(1)};
  auto logits = copy(executor.logits(both));
  CHECK(std::equal(logits.begin(), logits.begin() + 500, logits.begin() + 500));
  return logits;
}

/// Two sequences after the blocks of the first were moved to the host's pool, and back to blocks 14
/// and 15 of the pool.
struct MovedSequences {
  std::vector<Known> sequences;
  int freed_block = 0;        // where the first one's tokens began
  std::vector<float> logits;  // of their last tokens
};

/// Moves them, and checks that no bit of their logits changes. Pools: 16 blocks, and 4 of the host.
inline MovedSequences moved_to_host_and_back(BatchExecutor& executor) {
  auto sequences = sequences_of(2, 64, 500);
  const std::vector<SequenceStep> prompts{sequences[0].next(40), sequences[1].next(40)};
  static_cast<void>(executor.logits(prompts));
  MovedSequences moved{sequences, sequences[0].blocks[0], {}};
  const std::vector<SequenceStep> next{sequences[0].next(1), sequences[1].next(1)};
  moved.logits = copy(executor.logits(next));
  const BlockCopy out[] = {{moved.freed_block, 2}, {sequences[0].blocks[1], 0}};
  const BlockCopy back[] = {{2, 14}, {0, 15}};
  executor.move_out(out);
  executor.move_in(back);
  moved.sequences[0].blocks = {14, 15};
  const std::vector<SequenceStep> again{moved.sequences[0].next(1), moved.sequences[1].next(1)};
  CHECK(copy(executor.logits(again)) == moved.logits);
  return moved;
}

}  // namespace rigcast::engine::fixtures
