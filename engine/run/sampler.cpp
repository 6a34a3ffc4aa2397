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

std::int32_t Sampler::next(std::span<const float> logits) {
  if (is_greedy()) return argmax_token(logits);
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto logit = [&](std::int32_t i) {
    const float v = logits[static_cast<std::size_t>(i)];
    return std::isnan(v) ? -INFINITY : v;
  };
  const std::size_t kept =
      sampling_.top_k > 0 ? std::min(order_.size(), std::size_t(sampling_.top_k)) : order_.size();
  std::partial_sort(order_.begin(), order_.begin() + std::ptrdiff_t(kept), order_.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
                    });
  // Prefix sums of the probabilities, added in order: engine/kernels/cuda/sampling/sample.cu adds
  // and compares the same numbers in the same order, and samples the same tokens.
  std::vector<double> sums(kept);
  double all = 0;
  for (std::size_t i = 0; i < kept; ++i)
    sums[i] = all +=
        std::exp(double(logit(order_[i]) - logit(order_[0])) / double(sampling_.temperature));
  const double enough = double(sampling_.top_p) * all;
  std::size_t used = 1;
  while (used < kept && sums[used - 1] < enough) ++used;
  const double at = double(random_word(sampling_.seed, drawn_++) >> 11) * 0x1p-53 * sums[used - 1];
  std::size_t chosen = 0;
  while (chosen + 1 < used && sums[chosen] <= at) ++chosen;
  return order_[chosen];
}

}  // namespace rigcast::engine
