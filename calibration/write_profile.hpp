#pragma once
// The fitted figures of a runtime profile as the TOML file that is laid over it.

#include <string>

#include "calibration/residuals.hpp"

namespace rigcast::calibration {

/// `runtime`: whose figures; "" for the shared ones, which belong to `profile`. `file` names the
/// measurements.
std::string to_toml(const RuntimeProfile& profile, const std::string& runtime,
                    const std::vector<Parameter>& parameters, const std::vector<Sample>& samples,
                    const LeftOut& fit, const std::string& file);

}  // namespace rigcast::calibration
