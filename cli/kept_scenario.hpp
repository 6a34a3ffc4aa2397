#pragma once
// What the folder of a validation says of one run: its scenario, and how it is executed.

#include <filesystem>

#include "cli/executed.hpp"
#include "cli/suite.hpp"
#include "core/catalogue/catalogue.hpp"

namespace rigcast::cli {

/// A run's scenario on a rig file, from resident weights unless it says otherwise.
Result<Scenario> scenario_on(const TomlDocument& run, const std::filesystem::path& rig,
                             const Catalogue& catalogue);

/// What is not the scenario's to say.
struct HowRun {
  Device device = Device::kCpu;
  int repeat = 3;
  BytesPerSecond vram_ceiling;  // as probed; 0: is measured
};

/// `repeat` times, or as often as the run says, and once more for what its activities took.
ExecuteOptions execution(const SuiteRun& run, const Scenario& scenario, const HowRun& how);

}  // namespace rigcast::cli
