#pragma once
// Finds where tokens begin to take longer than the trend of those before.

#include <cstddef>
#include <optional>
#include <span>

#include "core/base/units.hpp"

namespace rigcast {

/// A token this far above its trend, as a share, has left it: more than runs differ by.
inline constexpr double kOffTrend = 0.05;
/// A fall costs this much more than the trend before it, by its end.
inline constexpr double kMinFall = 0.15;

struct Knee {
  std::size_t at = 0;     // the last time on the trend
  Seconds before, after;  // a token there, and at the end
};

/// Finds where times that follow one line, then a steeper one, leave the first line, to within
/// `piece` times, of which the median counts. nullopt: the end is less than kMinFall above the
/// first line, or there are too few times.
std::optional<Knee> find_knee(std::span<const double> times_s, std::size_t piece);

}  // namespace rigcast
