#pragma once
// The weights exp((logit - largest) / temperature) of all tokens, summed by how far a logit is
// below the largest: which of a vocabulary's tokens a draw can reach is known before they are
// sorted.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/likeliest_tokens.hpp"

namespace rigcast::engine {

class VocabularyWeights {
 public:
  /// `largest` is the largest of the logits, `temperature` above 0. Logits must outlive it.
  VocabularyWeights(std::span<const float> logits, float largest, float temperature);

  /// The vocabulary in parts of one size, whoever adds them. Several threads may add different ones
  /// at the same time.
  std::size_t parts() const { return sums_.size(); }
  void add(std::size_t part);

  // After all parts have been added.
  /// The weight of all tokens. The same bits whoever has added which part.
  double total() const;
  /// Tokens, not sorted, among which are the likeliest ones whose weight is at least `wanted`, and
  /// the likeliest in any case.
  std::vector<RankedToken> tokens_with(double wanted) const;

 private:
  static constexpr std::size_t kPart = 4096, kBins = 128, kBinsOfE = 4;  // bins of a factor e
  struct Bins {
    double sums[kBins] = {};
  };
  std::size_t bin_of(float logit) const;
  double weight_of(float logit) const;
  Bins merged() const;

  std::span<const float> logits_;
  float largest_, temperature_, bins_of_one_;  // of a difference of one between logits
  std::vector<Bins> sums_;  // by part
};

}  // namespace rigcast::engine
