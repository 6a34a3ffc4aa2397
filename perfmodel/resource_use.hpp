#pragma once
// The demand of a step, summed by resource. No overlap of operations can be faster than the busiest
// resource.

#include <array>

#include "perfmodel/step.hpp"

namespace rigcast {

/// The seconds for which the step keeps each resource busy by itself (for `gpu`, the busiest GPU),
/// and the bytes that it moves over the same routes.
struct ResourceUse {
  std::array<double, kResourceCount> seconds{};
  std::array<double, kResourceCount> bytes{};

  void add(Resource r, double s, double b = 0) {
    seconds[std::size_t(r)] += s;
    bytes[std::size_t(r)] += b;
  }
  ResourceUse& operator+=(const ResourceUse& other);
  double of(Resource r) const { return seconds[std::size_t(r)]; }
};
ResourceUse resource_use(const StepContext& context, const Step& step);

/// No schedule of the step is faster than its busiest resource.
Seconds lower_bound(const StepContext& context, const Step& step);

}  // namespace rigcast
