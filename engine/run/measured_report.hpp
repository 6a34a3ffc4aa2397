#pragma once
// Turns the measurements of runs of a scenario into a report, in the form of a forecast.

#include <memory>
#include <optional>
#include <vector>

#include "engine/run/request.hpp"
#include "report/report.hpp"

namespace rigcast::engine {

/// A start that is not resident: the times before the request.
struct StartTimes {
  Seconds load, tokenize;
  RequestTimes request;
};

struct MeasuredRuns {
  std::vector<RequestTimes> resident;  // the workload, several times
  std::optional<StartTimes> warm, cold;
  Seconds tokenize;                // of the prompt
  std::vector<DeviceMemory> gpus;  // that were used
  DeviceMemory host;
  std::vector<TokenPaging> paging;  // of each resident run; empty: not counted
  // Rates of a plain read of memory; 0: not measured, or not read from.
  BytesPerSecond dram_ceiling, vram_ceiling;
};

/// The positions, in tokens in the cache, at which the report of a run gives speeds.
std::vector<TokenCount> reported_positions(const Workload& workload);

/// Medians over the runs; ranges over the runs where a forecast has intervals.
Report measured_report(std::shared_ptr<const Scenario> scenario, const Placement& placement,
                       const MeasuredRuns& runs);

}  // namespace rigcast::engine
