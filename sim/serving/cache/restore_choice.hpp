#pragma once
// Whether blocks that were found behind the cache come back, or are computed anew, which may be
// faster.

#include <cstdint>
#include <vector>

#include "core/base/units.hpp"
#include "sim/serving/cache/ram_tier.hpp"

namespace rigcast {

/// Blocks that follow one another in one tier.
struct FoundRun {
  bool on_disk;  // else in RAM
  std::uint32_t blocks;
};

class RestoreChoice {
 public:
  /// `block`: tokens of a block, and its bytes in the tiers.
  RestoreChoice(const RestoreRule& rule, TokenCount block, Bytes bytes)
      : rule_(rule), block_(block), bytes_(bytes) {}

  /// Prompts took so long: of the last ones each weighs less than the one after it.
  void computed(TokenCount tokens, Seconds took);
  /// Tokens of prompts a second; 0: not known, and what is found comes back.
  [[nodiscard]] double prompt_rate() const { return time_ > 0 ? tokens_ / time_ : 0; }

  /// The first blocks that come back, so that this and computing the others takes the least time,
  /// and of several such numbers the largest.
  [[nodiscard]] std::uint32_t blocks_back(const std::vector<FoundRun>& found) const;

 private:
  RestoreRule rule_;
  TokenCount block_;
  Bytes bytes_;
  double tokens_ = 0, time_ = 0;
};

}  // namespace rigcast
