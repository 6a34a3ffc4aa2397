#pragma once
// Samples the next token from logits.

#include <cstdint>
#include <span>

#include "engine/run/likeliest_tokens.hpp"
#include "engine/run/vocabulary_weights.hpp"

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
  /// True if these are all tokens, and more than are sorted for a draw.
  bool needs_all_weights(std::size_t vocabulary) const;
  /// As next(), and the same token, of tokens that have at least the likeliest candidates(). Sorts
  /// them.
  std::int32_t next_of(std::size_t vocabulary, std::span<RankedToken> tokens);
  /// The same where needs_all_weights(), of the weights at its temperature.
  std::int32_t next_of_all(const VocabularyWeights& weights);

  const Sampling& sampling() const { return sampling_; }
  /// The number of draws so far, which selects the next random number.
  std::uint64_t drawn() const { return drawn_; }
  /// Counts a draw that was made on a GPU with that number.
  void count_draw() { ++drawn_; }
  /// Forgets the draws after the first `drawn`: of a step that did not happen.
  void rewind(std::uint64_t drawn) { drawn_ = drawn; }

 private:
  double draw();

  Sampling sampling_;
  std::uint64_t drawn_ = 0;
};

}  // namespace rigcast::engine
