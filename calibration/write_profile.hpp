#pragma once
// Writes the fitted figures of a runtime profile, as the TOML file that is merged into it.

#include <string>

#include "calibration/accuracy.hpp"

namespace rigcast::calibration {

/// `runtime`: the profile whose figures are written; "" for the shared ones, which belong to
/// `profile`. `file`: the name of the measurements.
std::string to_toml(const RuntimeProfile& profile, const std::string& runtime,
                    const std::vector<Parameter>& parameters, const std::vector<Sample>& samples,
                    const LeftOut& fit, const std::string& file);

}  // namespace rigcast::calibration
