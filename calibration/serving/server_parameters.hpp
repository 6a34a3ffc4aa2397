#pragma once
// The figures of a paged server's profile that measured loads can determine.

#include <vector>

#include "calibration/fit/parameters.hpp"

namespace rigcast::calibration {

/// Their priors are the profile's own figures.
std::vector<Parameter> server_parameters(const RuntimeProfile& profile);

}  // namespace rigcast::calibration
