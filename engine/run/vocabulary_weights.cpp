#include "engine/run/vocabulary_weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rigcast::engine {

VocabularyWeights::VocabularyWeights(std::span<const float> logits, float largest,
                                     float temperature)
    : logits_(logits),
      largest_(std::isnan(largest) ? -std::numeric_limits<float>::infinity() : largest),
      temperature_(temperature),
      bins_of_one_(float(kBinsOfE) / temperature),
      sums_((logits.size() + kPart - 1) / kPart) {}

// What is not a number comes last, as all that is far below the largest.
std::size_t VocabularyWeights::bin_of(float logit) const {
  if (logit >= largest_) return 0;
  const float bin = bins_of_one_ * (largest_ - logit);
  return bin < float(kBins - 1) ? std::size_t(bin) : kBins - 1;
}

double VocabularyWeights::weight_of(float logit) const {
  if (logit >= largest_) return 1;
  return std::isnan(logit) ? 0 : std::exp(double(logit - largest_) / double(temperature_));
}

void VocabularyWeights::add(std::size_t part) {
  const std::size_t first = part * kPart, count = std::min(kPart, logits_.size() - first);
  Bins bins;
  for (const float logit : logits_.subspan(first, count))
    bins.sums[bin_of(logit)] += weight_of(logit);
  sums_[part] = bins;
}

VocabularyWeights::Bins VocabularyWeights::merged() const {
  Bins all;
  for (const Bins& part : sums_)
    for (std::size_t i = 0; i < kBins; ++i) all.sums[i] += part.sums[i];
  return all;
}

double VocabularyWeights::total() const {
  double total = 0;
  for (const double sum : merged().sums) total += sum;
  return total;
}

std::vector<RankedToken> VocabularyWeights::tokens_with(double wanted) const {
  constexpr double kRounding = 1 + 1e-9;  // of sums in another order
  const Bins bins = merged();
  std::size_t last = 0;
  for (double sum = bins.sums[0]; sum < kRounding * wanted && last + 1 < kBins;)
    sum += bins.sums[++last];
  std::vector<RankedToken> tokens;
  for (std::size_t i = 0; i < logits_.size(); ++i)
    if (bin_of(logits_[i]) <= last) tokens.emplace_back(logits_[i], std::int32_t(i));
  return tokens.empty() ? candidates_of(logits_, logits_.size()) : tokens;  // none is a number
}

}  // namespace rigcast::engine
