#pragma once
// The 80 % interval that a runtime's profile gives a forecast, and the chips that no run behind it
// measured.

#include <string>
#include <vector>

#include "core/base/metrics.hpp"
#include "core/scenario/regime.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Families (chip_families()) of the chips that compute without a measured run of `metric` behind
/// the profile's figures, with this kind of host. Empty as well where the profile states no runs.
std::vector<std::string> unmeasured_families(const StepContext& context, SpeedMetric metric,
                                             Regime regime);

/// Ends of the interval, as shares of the forecast speed: that of chips left out of the fit. Where
/// a family was not measured it reaches at least as far as that of families left out. Without
/// either, the profile's `[uncertainty]`.
struct ProfileInterval {
  double low = 1, high = 1;
};
ProfileInterval profile_interval(const StepContext& context, SpeedMetric metric, Regime regime);

/// A sentence on families that were not measured, of decode and of prefill; empty if there is none.
std::string unmeasured_text(const StepContext& context, const std::vector<std::string>& decode,
                            const std::vector<std::string>& prefill, Regime regime);

}  // namespace rigcast
