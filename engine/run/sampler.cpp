#include "engine/run/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/synth/counter_rng.hpp"

namespace rigcast::engine {

std::int32_t argmax_token(std::span<const float> logits) {
  // A vocabulary has 100,000 tokens or more: several maxima are kept side by side for SIMD, then
  // the position of the largest is found. NaN is never larger.
  constexpr std::size_t kSide = 16;
  float most[kSide];
  std::fill_n(most, kSide, -std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + kSide <= logits.size(); i += kSide)
    for (std::size_t k = 0; k < kSide; ++k)
      most[k] = logits[i + k] > most[k] ? logits[i + k] : most[k];
  for (; i < logits.size(); ++i) most[0] = logits[i] > most[0] ? logits[i] : most[0];
  const float largest = *std::max_element(most, most + kSide);
  const auto place = std::find(logits.begin(), logits.end(), largest);
  return place == logits.end() ? 0 : std::int32_t(place - logits.begin());
}

namespace {

float comparable(float logit) {
  return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
}

// The ids from the likeliest on, sorted as far as a draw asks for them: to sort a vocabulary takes
// longer than a step of a small model.
class LikeliestTokens {
 public:
  // `sorted`: how many are sorted at once, one at least.
  LikeliestTokens(std::span<const float> logits, float temperature, std::span<std::int32_t> ids,
                  std::size_t sorted)
      : logits_(logits), temperature_(temperature), ids_(ids) {
    sort_likeliest(logits_, sorted, ids_);
    largest_ = logit(ids_.front());
    add_weights(sorted);
  }

  // Prefix sums of the sorted tokens' weights, added in order:
  // engine/kernels/cuda/sampling/sample.cu adds and compares the same numbers in the same order,
  // and samples the same tokens.
  const std::vector<double>& sums() const { return sums_; }
  std::int32_t id(std::size_t rank) const { return ids_[rank]; }

  void sort(std::size_t count) {
    const std::size_t sorted = sums_.size();
    if (count <= sorted) return;
    sort_likeliest(logits_, count - sorted, ids_.subspan(sorted));
    add_weights(count);
  }

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

  double weight_of_all() const {
    double all = 0;
    for (std::size_t i = 0; i < logits_.size(); ++i) all += weight(std::int32_t(i));
    return all;
  }

 private:
  float logit(std::int32_t i) const { return comparable(logits_[std::size_t(i)]); }
  double weight(std::int32_t i) const {
    return std::exp(double(logit(i) - largest_) / double(temperature_));
  }
  void add_weights(std::size_t sorted) {
    while (sums_.size() < sorted)
      sums_.push_back(weight(ids_[sums_.size()]) + (sums_.empty() ? 0 : sums_.back()));
  }

  std::span<const float> logits_;
  float temperature_, largest_ = 0;
  std::span<std::int32_t> ids_;
  std::vector<double> sums_;
};

}  // namespace

void sort_likeliest(std::span<const float> logits, std::size_t count, std::span<std::int32_t> ids) {
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float of_a = comparable(logits[std::size_t(a)]),
                of_b = comparable(logits[std::size_t(b)]);
    return of_a != of_b ? of_a > of_b : a < b;
  };
  constexpr std::size_t kFew = 1024;  // a heap of so few is faster than a partition
  const auto last = ids.begin() + std::ptrdiff_t(count);
  if (count <= kFew) {
    std::partial_sort(ids.begin(), last, ids.end(), before);
    return;
  }
  if (count < ids.size()) std::nth_element(ids.begin(), last, ids.end(), before);
  std::sort(ids.begin(), last, before);
}

std::size_t Sampler::candidates(std::size_t vocabulary) const {
  if (is_greedy()) return std::min<std::size_t>(vocabulary, 1);
  return sampling_.top_k > 0 ? std::min(vocabulary, std::size_t(sampling_.top_k)) : vocabulary;
}

std::int32_t Sampler::next(std::span<const float> logits) {
  if (is_greedy()) return argmax_token(logits);
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  return next_of(logits, order_);
}

std::int32_t Sampler::next_of(std::span<const float> logits, std::vector<std::int32_t>& ids) {
  constexpr std::size_t kSortedAtOnce = 2048;
  std::size_t kept = candidates(logits.size());
  if (is_greedy()) return sort_likeliest(logits, kept, ids), ids.front();
  const bool sorts = kept < logits.size() || kept <= kSortedAtOnce;
  LikeliestTokens tokens(logits, sampling_.temperature, ids, sorts ? kept : 1);
  double all = sorts ? tokens.sums().back() : tokens.weight_of_all();
  if (sorts || sampling_.top_p < 1) {
    const double enough = double(sampling_.top_p) * all;
    kept = 1 + tokens.rank_of(kept, [&](double sum) { return !(sum < enough); });
    all = tokens.sums()[kept - 1];
  }
  const double at = double(random_word(sampling_.seed, drawn_++) >> 11) * 0x1p-53 * all;
  return tokens.id(tokens.rank_of(kept, [&](double sum) { return !(sum <= at); }));
}

}  // namespace rigcast::engine
