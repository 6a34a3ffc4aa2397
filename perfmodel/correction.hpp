#pragma once
// How what a user's own runs say of a rig's speed enters a forecast.

#include <optional>
#include <string_view>

#include "core/scenario/regime.hpp"
#include "core/scenario/scenario.hpp"

namespace rigcast {

/// What the speeds of its devices are multiplied by, for a batch of `tokens`.
double device_speed(const Scenario& scenario, TokenCount tokens);

/// Log: half-width of the profile's 80 % interval of "tg_tps" or "pp_tps".
double profile_spread(const Scenario& scenario, std::string_view metric, Regime regime);
/// The same of the correction, where that is narrower; nullopt: the profile's holds.
std::optional<double> narrower_spread(const Scenario& scenario, std::string_view metric,
                                      Regime regime);

}  // namespace rigcast
