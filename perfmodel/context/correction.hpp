#pragma once
// The effect of a rig's correction, which is fitted to the user's own runs, on a forecast.

#include <optional>

#include "core/base/metrics.hpp"
#include "core/scenario/regime.hpp"
#include "core/scenario/scenario.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// The factor on the speed of the rig's GPUs, or of its CPU, for a batch of `tokens` tokens.
double device_speed(const StepContext& context, TokenCount tokens, bool on_host);

/// The factor on the speed of a device's chip beyond its architecture, by others' rows of that
/// chip; 1 for a device that was probed.
double chip_speed(const StepContext& context, TokenCount tokens, DeviceIndex device);

/// Logarithm of the half-width of the profile's 80 % interval of the metric.
double profile_spread(const StepContext& context, SpeedMetric metric, Regime regime);
/// As profile_spread(), from the rig's correction where that is narrower; nullopt: the profile's
/// interval holds.
std::optional<double> narrower_spread(const StepContext& context, SpeedMetric metric,
                                      Regime regime);

}  // namespace rigcast
