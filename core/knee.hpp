#pragma once
// Where tokens begin to take longer than the ones before them promised.

#include <cstddef>
#include <optional>
#include <span>

#include "core/units.hpp"

namespace rigcast {

struct Knee {
  std::size_t at = 0;     // the last time on the trend
  Seconds before, after;  // a token there, and at the end
};

/// Of times that follow one line and then a steeper one: where the two meet that fit best, to
/// within `piece` times, whose median stands for them. nullopt: the end is less than `least` above
/// the first line, as a share, or there are too few times to tell.
std::optional<Knee> knee_of(std::span<const double> times_s, std::size_t piece, double least);

}  // namespace rigcast
