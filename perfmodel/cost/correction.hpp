#pragma once
// How what a user's own runs say of a rig's speed enters a forecast.

#include <optional>
#include <string_view>

#include "core/scenario/regime.hpp"
#include "core/scenario/scenario.hpp"
#include "perfmodel/step_context.hpp"

namespace rigcast {

/// What the speeds of its devices are multiplied by, for a batch of `tokens`.
double device_speed(const StepContext& context, TokenCount tokens);

/// Log: half-width of the profile's 80 % interval of "tg_tps" or "pp_tps".
double profile_spread(const StepContext& context, std::string_view metric, Regime regime);
/// The same of the correction, where that is narrower; nullopt: the profile's holds.
std::optional<double> narrower_spread(const StepContext& context, std::string_view metric,
                                      Regime regime);

}  // namespace rigcast
