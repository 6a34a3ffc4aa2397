#pragma once
// What a forecast assumes that the run beside it may not be.

#include <string>
#include <vector>

#include "report/report.hpp"
#include "validation/runs/suite.hpp"

namespace rigcast::validation {

/// The forecast's own warnings, a rig that was named instead of probed, an unknown build, and flags
/// of a server, which it does not tell. `of_server`: a llama-server that runs is timed.
std::vector<std::string> forecast_notes(const SuiteRun& run, const Report& forecast,
                                        bool of_server);

}  // namespace rigcast::validation
