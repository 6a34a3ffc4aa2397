#include "engine/run/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/synth/counter_rng.hpp"

namespace rigcast::engine {
namespace {

// Tokens from the likeliest on, sorted as far as a draw asks for them: to sort a vocabulary takes
// longer than a step of a small model.
class SortedTokens {
 public:
  // `sorted`: how many are sorted at once, one at least.
  SortedTokens(std::span<RankedToken> tokens, float temperature, std::size_t sorted)
      : tokens_(tokens), temperature_(temperature) {
    sort_likeliest(sorted, tokens_);
    add_weights(sorted);
  }

  // Prefix sums of the sorted tokens' weights, added in order:
  // engine/kernels/cuda/sampling/sample.cu adds and compares the same numbers in the same order,
  // and samples the same tokens.
  const std::vector<double>& sums() const { return sums_; }
  std::int32_t id(std::size_t rank) const { return tokens_[rank].id(); }

  // The rank of the first of the `count` likeliest tokens whose prefix sum is enough; the last one
  // if there is none.
  template <class IsEnough>
  std::size_t rank_of(std::size_t count, const IsEnough& is_enough) {
    constexpr std::size_t kFirst = 64;
    std::size_t rank = 0;
    for (; rank + 1 < count; ++rank) {
      if (rank == sums_.size()) sort(std::min(count, std::max(kFirst, 4 * rank)));
      if (is_enough(sums_[rank])) break;
    }
    sort(rank + 1);
    return rank;
  }

 private:
  void sort(std::size_t count) {
    const std::size_t sorted = sums_.size();
    if (count <= sorted) return;
    sort_likeliest(count - sorted, tokens_.subspan(sorted));
    add_weights(count);
  }
  void add_weights(std::size_t sorted) {
    const float largest = tokens_.front().logit();
    while (sums_.size() < sorted) {
      const float below = tokens_[sums_.size()].logit() - largest;
      const double weight = std::exp(double(below) / double(temperature_));
      sums_.push_back(weight + (sums_.empty() ? 0 : sums_.back()));
    }
  }

  std::span<RankedToken> tokens_;
  float temperature_;
  std::vector<double> sums_;
};

}  // namespace

std::size_t Sampler::candidates(std::size_t vocabulary) const {
  if (is_greedy()) return std::min<std::size_t>(vocabulary, 1);
  return sampling_.top_k > 0 ? std::min(vocabulary, std::size_t(sampling_.top_k)) : vocabulary;
}

bool Sampler::needs_all_weights(std::size_t vocabulary) const {
  constexpr std::size_t kSortedAtOnce = 2048;
  return candidates(vocabulary) == vocabulary && vocabulary > kSortedAtOnce;
}

std::int32_t Sampler::next(std::span<const float> logits) {
  if (is_greedy()) return argmax_token(logits);
  if (!needs_all_weights(logits.size())) {
    auto tokens = candidates_of(logits, candidates(logits.size()));
    return next_of(logits.size(), tokens);
  }
  const float largest = logits[std::size_t(argmax_token(logits))];
  VocabularyWeights weights(logits, largest, sampling_.temperature);
  for (std::size_t part = 0; part < weights.parts(); ++part) weights.add(part);
  return next_of_all(weights);
}

// In [0, 1).
double Sampler::draw() { return double(random_word(sampling_.seed, drawn_++) >> 11) * 0x1p-53; }

std::int32_t Sampler::next_of(std::size_t vocabulary, std::span<RankedToken> among) {
  std::size_t kept = candidates(vocabulary);
  SortedTokens tokens(among, sampling_.temperature, kept);
  if (is_greedy()) return tokens.id(0);
  const double enough = double(sampling_.top_p) * tokens.sums().back();
  kept = 1 + tokens.rank_of(kept, [&](double sum) { return !(sum < enough); });
  const double at = draw() * tokens.sums()[kept - 1];
  return tokens.id(tokens.rank_of(kept, [&](double sum) { return !(sum <= at); }));
}

std::int32_t Sampler::next_of_all(const VocabularyWeights& weights) {
  const double drawn = draw(), total = weights.total(), enough = double(sampling_.top_p) * total;
  const bool cuts = sampling_.top_p < 1;
  std::vector<RankedToken> within = weights.tokens_with(cuts ? enough : drawn * total);
  SortedTokens tokens(within, sampling_.temperature, 1);
  std::size_t kept = within.size();
  if (cuts) kept = 1 + tokens.rank_of(kept, [&](double sum) { return !(sum < enough); });
  const double at = drawn * (cuts ? tokens.sums()[kept - 1] : total);
  return tokens.id(tokens.rank_of(kept, [&](double sum) { return !(sum <= at); }));
}

}  // namespace rigcast::engine
