#pragma once
// Sums of a step by resource. No overlap can beat the busiest of them.

#include <array>

#include "perfmodel/step.hpp"

namespace rigcast {

/// Seconds that the step keeps every resource busy, were each alone; times for `gpu` are of the
/// busiest one. And true bytes by the same routes.
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
