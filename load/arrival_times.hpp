#pragma once
// When sessions of an open load begin.

#include <memory>

#include "core/base/units.hpp"
#include "core/scenario/load.hpp"
#include "load/lengths.hpp"

namespace rigcast {

/// A point process on the time line from 0 on, in its steady state.
class ArrivalTimes {
 public:
  virtual ~ArrivalTimes() = default;
  /// The next point, at or after the one before it.
  virtual Seconds next(Random& random) = 0;
};

/// `rate`: points per second in the mean. Requires an open process that is no trace; of a burst all
/// points are at 0.
std::unique_ptr<ArrivalTimes> arrival_times(const Load& load, double rate);

}  // namespace rigcast
