#pragma once
// A forecast beside the run of the same scenario: figure by figure, and by kind of activity.

#include <span>
#include <string>
#include <vector>

#include "report/report.hpp"
#include "report/trace.hpp"
#include "validation/validation.hpp"

namespace rigcast {

/// The name of a configuration in a runtime profile's list of those it was fitted on: "llama-3.2-1b
/// Q4_K_M, prompt 512, depth 0, f16/f16, 2 threads", and with a GPU its part; with a load that in
/// place of the prompt. The number of decoded tokens does not count.
std::string configuration_of(const Scenario& scenario);

/// A row for every figure that both reports have; the metric is its path in the report's JSON, and
/// of memory its tier. `predicted` has a scenario. Activities that both sides have follow as
/// "activities.prefill.ffn".
std::vector<ValidationRow> compare_reports(const std::string& id, const Report& predicted,
                                           const Report& measured,
                                           std::span<const ActivityRow> activities);

/// Measured times of a run's activities, by phase and kind; for decode the mean over its tokens.
std::vector<ActivityRow> activities_of(std::span<const TraceEvent> measured);
/// Compares the activities of a forecast of as many tokens with those of a run: everything that
/// either recorded.
std::vector<ActivityRow> compare_activities(std::span<const TraceEvent> predicted,
                                            std::span<const ActivityRow> measured);

/// Positions of the cache at which a measured report tells speeds.
std::vector<TokenCount> positions_of(const Report& measured);

}  // namespace rigcast
