#pragma once
// How often gaps between tokens are how long.

#include <array>
#include <cstdint>

#include "core/base/units.hpp"

namespace rigcast {

/// Counts in classes whose bounds are a hundredth apart, from 1 us to 20 minutes.
class GapHistogram {
 public:
  void add(Seconds gap, std::int64_t count);
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] double mean() const;  // seconds; 0 without gaps
  /// Seconds within half a percent: the smallest gap up to which there is this share of them.
  [[nodiscard]] double quantile(double share) const;

 private:
  static constexpr double kMinGap = 1e-6, kRatio = 1.01;
  static constexpr std::size_t kClasses = 2100;  // 1.01^2100 is 1.2e9

  std::array<std::int64_t, kClasses> counts_{};
  std::int64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace rigcast
