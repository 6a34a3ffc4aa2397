#pragma once
// Samples the next token from logits.

#include <cstdint>
#include <span>
#include <vector>

namespace rigcast::engine {

struct Sampling {
  float temperature = 0;  // 0: the likeliest token
  int top_k = 40;         // number of most probable tokens to choose from; 0: all
  float top_p = 0.95f;    // smallest set of most probable tokens with this total probability
  std::uint64_t seed = 0;
};

class Sampler {
 public:
  explicit Sampler(const Sampling& sampling) : sampling_(sampling) {}

  /// True if the most probable token is always taken.
  bool is_greedy() const { return !(sampling_.temperature > 0); }
  /// Samples the next token. The same logits and seed give the same tokens. The lower id of equal
  /// logits wins; NaN never wins.
  std::int32_t next(std::span<const float> logits);
  /// How many of the likeliest of `vocabulary` tokens it chooses from.
  std::size_t candidates(std::size_t vocabulary) const;
  /// As next(), and the same token, where `ids` has at least the likeliest candidates(). Sorts
  /// `ids`.
  std::int32_t next_of(std::span<const float> logits, std::vector<std::int32_t>& ids);

  const Sampling& sampling() const { return sampling_; }
  /// The number of draws so far, which selects the next random number.
  std::uint64_t drawn() const { return drawn_; }
  /// Counts a draw that was made on a GPU with that number.
  void count_draw() { ++drawn_; }
  /// Forgets the draws after the first `drawn`: of a step that did not happen.
  void rewind(std::uint64_t drawn) { drawn_ = drawn; }

 private:
  Sampling sampling_;
  std::uint64_t drawn_ = 0;
  std::vector<std::int32_t> order_;
};

/// The id of the largest logit; the lowest of equal ones.
std::int32_t argmax_token(std::span<const float> logits);

/// The `count` likeliest of `ids` come first, sorted; the lower id of equal logits first, NaN last.
void sort_likeliest(std::span<const float> logits, std::size_t count, std::span<std::int32_t> ids);

}  // namespace rigcast::engine
