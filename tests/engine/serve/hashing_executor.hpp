#pragma once
// An executor whose keys are the tokens themselves: the token that follows is a hash of all that a
// sequence finds in its blocks, so that a block that holds something else changes its answer. With
// checkpoints, a sequence has a state, too, which is all that it has seen: another's ends a step.
// So does a block of a window that does not hold the sequence's own tokens.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "engine/run/batch_executor.hpp"

namespace rigcast::engine::fixtures {

class HashingExecutor : public BatchExecutor {
 public:
  static constexpr std::int32_t kVocabulary = 1000;

  explicit HashingExecutor(const BatchLimits& limits)
      : limits_(limits),
        pool_(tokens_of(limits.blocks)),
        host_(tokens_of(limits.host_blocks)),
        windows_(tokens_of(limits.window_blocks)) {
    model_.spec.vocabulary = kVocabulary;
    if (limits.checkpoints > 0)
      states_.resize(std::size_t(limits.step_sequences + limits.checkpoints));
  }

  /// The token that follows these.
  static std::int32_t next(std::span<const std::int32_t> tokens) {
    std::uint64_t hash = 1469598103934665603u;
    for (const std::int32_t token : tokens) hash = (hash ^ std::uint64_t(token)) * 1099511628211u;
    return std::int32_t((hash >> 20) % std::uint64_t(kVocabulary));
  }
  /// The answer to a prompt that is computed alone.
  static std::vector<std::int32_t> answer(std::vector<std::int32_t> tokens, TokenCount count) {
    const std::size_t prompt = tokens.size();
    while (TokenCount(tokens.size() - prompt) < count) tokens.push_back(next(tokens));
    return {tokens.begin() + std::ptrdiff_t(prompt), tokens.end()};
  }

  /// Called with the number of every call of the functions below, from 1 on; what it throws, they
  /// throw before they do anything.
  std::function<void(int call)> before_call{};

  std::span<const std::int32_t> step(std::span<const SequenceStep> sequences) override {
    begin_step(sequences);
    RIGCAST_ASSERT(int(sequences.size()) <= limits_.step_sequences);
    TokenCount sum = 0;
    for (const SequenceStep& s : sequences) {
      sum += TokenCount(s.tokens.size());
      const TokenCount end = s.cached + TokenCount(s.tokens.size());
      RIGCAST_ASSERT(TokenCount(s.blocks.size()) * limits_.block_tokens >= end);
      for (TokenCount i = s.cached; i < end; ++i) at(s, i) = s.tokens[std::size_t(i - s.cached)];
      if (!states_.empty()) advance(s);
      if (!windows_.empty()) advance_window(s);
    }
    RIGCAST_ASSERT(sum <= limits_.step_tokens);
    chosen_.clear();
    std::vector<std::int32_t> all;
    for (const SequenceStep& s : sequences) {
      all.clear();
      for (TokenCount i = 0; i < s.cached + TokenCount(s.tokens.size()); ++i)
        all.push_back(at(s, i));
      chosen_.push_back(s.sampler ? next(all) : kNoToken);
    }
    return chosen_;
  }
  std::span<const float> logits(std::span<const SequenceStep>) override { return {}; }
  void move_out(std::span<const BlockCopy> copies) override { copy(copies, pool_, host_); }
  void move_in(std::span<const BlockCopy> copies) override { copy(copies, host_, pool_); }

  void copy_state(int from, int to) override {
    begin_call();
    states_.at(std::size_t(to)) = states_.at(std::size_t(from));
  }

  std::size_t block_bytes() const override {
    return std::size_t(limits_.block_tokens) * sizeof(std::int32_t);
  }
  void read_block(int block, std::span<std::byte> to) override {
    std::memcpy(to.data(), block_at(block), block_bytes());
  }
  void write_block(int block, std::span<const std::byte> from) override {
    std::memcpy(block_at(block), from.data(), block_bytes());
  }

  BatchLimits limits() const override { return limits_; }
  int threads() const override { return 1; }
  const Model& model() const override { return model_; }
  MovedBytes take_bytes() override { return {}; }
  DeviceMemory host() const override { return {}; }
  int calls() const { return calls_; }

 private:
  using Tokens = std::vector<std::int32_t>;
  Tokens tokens_of(int blocks) const {
    return Tokens(std::size_t(blocks) * std::size_t(limits_.block_tokens), -1);
  }
  std::int32_t& at(const SequenceStep& s, TokenCount i) {
    const auto block = std::size_t(s.blocks[std::size_t(i / limits_.block_tokens)]);
    return pool_[block * std::size_t(limits_.block_tokens) + std::size_t(i % limits_.block_tokens)];
  }
  void advance(const SequenceStep& s) {
    RIGCAST_ASSERT(s.state < limits_.step_sequences);
    Tokens& seen = states_.at(std::size_t(s.state));
    if (s.cached == 0) seen.clear();
    for (TokenCount i = 0; i < s.cached; ++i)
      RIGCAST_ASSERT(TokenCount(seen.size()) == s.cached && seen[std::size_t(i)] == at(s, i));
    seen.insert(seen.end(), s.tokens.begin(), s.tokens.end());
  }
  void advance_window(const SequenceStep& s) {
    const TokenCount end = s.cached + TokenCount(s.tokens.size());
    const auto in_window = [&](TokenCount i) -> std::int32_t& {
      const auto block = std::size_t(s.window_blocks[std::size_t(i / limits_.block_tokens)]);
      return windows_.at(block * std::size_t(limits_.block_tokens) +
                         std::size_t(i % limits_.block_tokens));
    };
    RIGCAST_ASSERT(TokenCount(s.window_blocks.size()) * limits_.block_tokens >= end);
    for (TokenCount i = s.cached; i < end; ++i) in_window(i) = at(s, i);
    for (TokenCount i = std::max<TokenCount>(0, s.cached + 1 - limits_.window); i < end; ++i)
      RIGCAST_ASSERT(in_window(i) == at(s, i));
  }
  std::int32_t* block_at(int block) {
    return pool_.data() + std::ptrdiff_t(block) * limits_.block_tokens;
  }
  // A step that fails leaves no state as it was.
  void begin_step(std::span<const SequenceStep> sequences) try { begin_call(); } catch (...) {
    if (!states_.empty())
      for (const SequenceStep& s : sequences) states_.at(std::size_t(s.state)) = {-1};
    throw;
  }
  void begin_call() {
    ++calls_;
    if (before_call) before_call(calls_);
  }
  void copy(std::span<const BlockCopy> copies, const Tokens& from, Tokens& to) {
    begin_call();
    const auto size = std::ptrdiff_t(limits_.block_tokens);
    for (const BlockCopy& c : copies)
      std::copy_n(from.begin() + c.from * size, size, to.begin() + c.to * size);
  }

  const BatchLimits limits_;
  Model model_;
  Tokens pool_, host_, windows_, chosen_;
  std::vector<Tokens> states_;  // empty: sequences have none
  int calls_ = 0;
};

}  // namespace rigcast::engine::fixtures
