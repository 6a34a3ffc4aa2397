#pragma once
// A fit of a server's profile as text: the profile's figures, what they are worth, and all rows.

#include <string>

#include "calibration/serving/fit_server.hpp"

namespace rigcast::calibration {

/// The file that is laid over the profile: figures, and the interval that chips left out give.
std::string to_toml(const RuntimeProfile& profile, const ServerFit& fit, const std::string& file);

/// Errors by figure, of chips in the fit and left out: medians and 90 % of absolute errors, chips
/// counting equally.
std::string to_text(const ServerFit& fit);

/// All figures of all runs, with both errors.
std::string to_csv(const ServerFit& fit);

}  // namespace rigcast::calibration
