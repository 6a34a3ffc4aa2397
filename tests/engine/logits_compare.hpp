#pragma once
// Differences between logits and those of a reference, over many positions.

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace rigcast::engine::fixtures {

struct Agreement {
  double mean_kl = 0;  // of the reference's distribution from the other
  double top1 = 0;     // share of positions with the same first token
  double nmse = 0;     // squared error of all logits over their variance
  // Positions where the best token differs: the largest margin by which the reference prefers its
  // own, in standard deviations of its logits.
  double widest_lost_margin = 0;
};

namespace detail {

inline double log_sum_exp(std::span<const float> x) {
  const double most = double(*std::max_element(x.begin(), x.end()));
  double sum = 0;
  for (const float v : x) sum += std::exp(double(v) - most);
  return most + std::log(sum);
}

inline double variance(std::span<const float> x) {
  double mean = 0, squares = 0;
  for (const float v : x) mean += double(v) / double(x.size());
  for (const float v : x) squares += std::pow(double(v) - mean, 2) / double(x.size());
  return squares;
}

}  // namespace detail

/// `got` holds want.size() rows of the same width.
inline Agreement compare(std::span<const float> got, const std::vector<std::vector<float>>& want) {
  Agreement a;
  double error = 0, power = 0;
  const std::size_t width = want[0].size();
  for (std::size_t t = 0; t < want.size(); ++t) {
    const std::span<const float> g = got.subspan(t * width, width), w = want[t];
    const double log_g = detail::log_sum_exp(g), log_w = detail::log_sum_exp(w);
    double kl = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const double p = double(w[i]) - log_w, q = double(g[i]) - log_g;
      kl += std::exp(p) * (p - q);
      error += std::pow(double(g[i]) - double(w[i]), 2);
    }
    const double variance = detail::variance(w);
    power += variance * double(width);
    a.mean_kl += kl / double(want.size());
    const auto top_g = std::size_t(std::max_element(g.begin(), g.end()) - g.begin());
    const auto top_w = std::size_t(std::max_element(w.begin(), w.end()) - w.begin());
    if (top_g == top_w) a.top1 += 1.0 / double(want.size());
    const double margin = double(w[top_w]) - double(w[top_g]);
    a.widest_lost_margin = std::max(a.widest_lost_margin, margin / std::sqrt(variance));
  }
  a.nmse = error / power;
  return a;
}

}  // namespace rigcast::engine::fixtures
