#pragma once
// The scenario of an archived run, and how it is executed.

#include <string>

#include "core/catalogue/catalogue.hpp"
#include "core/scenario/scenario.hpp"
#include "validation/runs/execute_options.hpp"
#include "validation/runs/suite.hpp"

namespace rigcast::validation {

/// A run's scenario on a rig as the text of its file, from resident weights unless it says
/// otherwise.
Result<Scenario> scenario_on(const TomlDocument& run, const std::string& rig,
                             const Catalogue& catalogue);

/// Settings of a run's execution that are not part of the scenario.
struct ExecutionSettings {
  const engine::EngineBackend* backend = &engine::cpu_backend();
  int repeat = 3;
  BytesPerSecond vram_ceiling;  // as probed; 0: is measured
};

/// `repeat` times, or as often as the run says, and once more for what its activities took.
ExecuteOptions execution(const SuiteRun& run, const Scenario& scenario,
                         const ExecutionSettings& how);

}  // namespace rigcast::validation
