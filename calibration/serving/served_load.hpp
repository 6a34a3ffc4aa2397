#pragma once
// Measured loads of servers, and how far forecasts of them are off.

#include <optional>
#include <string>
#include <vector>

#include "core/runtime/runtime_profile.hpp"
#include "measurements/serving/resolve_serving.hpp"

namespace rigcast::calibration {

/// Figures that are compared.
enum class LoadFigure { kThroughput, kTpot, kTpot99, kTtft, kTtft99 };
inline constexpr int kLoadFigures = 5;
std::string_view name(LoadFigure figure);

/// ln(forecast / measured) of each figure that was measured and has a forecast.
struct LoadErrors {
  std::optional<double> of[kLoadFigures];
};

/// True for a load that nobody doubts; not in lockstep, and not one that is replayed request by
/// request, which judges the fit.
bool takes_part(const ServingMeasurement& m);

/// Of runs that differ in their load alone, those with the fewest and with the most requests under
/// way, and one between: the others repeat what these say.
std::vector<ResolvedServing> distinct_loads(std::vector<ResolvedServing> runs);

/// The errors of a run with figures of `profile`. Waits have none where the server does not keep
/// up. `requests`: so many at least are simulated; 99 % quantiles need 1,000.
LoadErrors errors_of(const ResolvedServing& run, const RuntimeProfile& profile, int requests);

}  // namespace rigcast::calibration
