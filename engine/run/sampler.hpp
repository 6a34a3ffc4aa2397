#pragma once
// From logits to the next token.

#include <cstdint>
#include <span>
#include <vector>

namespace rigcast::engine {

struct Sampling {
  float temperature = 0;  // 0: the likeliest token
  int top_k = 40;         // of the likeliest; 0: all
  float top_p = 0.95f;    // of the likeliest that together have this probability
  std::uint64_t seed = 0;
};

class Sampler {
 public:
  explicit Sampler(const Sampling& sampling) : sampling_(sampling) {}

  /// The likeliest token is taken, whatever the others' shares.
  bool is_greedy() const { return !(sampling_.temperature > 0); }
  /// The same logits and seed give the same tokens. Of equals the lower id; NaN never wins.
  std::int32_t next(std::span<const float> logits);

  const Sampling& sampling() const { return sampling_; }
  /// Which random number the next draw takes.
  std::uint64_t drawn() const { return drawn_; }
  /// The next draw was made elsewhere, with that number.
  void count_draw() { ++drawn_; }

 private:
  Sampling sampling_;
  std::uint64_t drawn_ = 0;
  std::vector<std::int32_t> order_;
};

/// The id of the largest; of equals the lowest.
std::int32_t likeliest(std::span<const float> logits);

}  // namespace rigcast::engine
