#pragma once
// The figures of a paged server's profile that measured loads can determine.

#include <set>
#include <string>
#include <vector>

#include "calibration/fit/parameters.hpp"

namespace rigcast::calibration {

/// Their priors are the profile's own figures. `chips`: ids of GPUs, each of which may be faster or
/// slower than its architecture.
std::vector<Parameter> server_parameters(const RuntimeProfile& profile,
                                         const std::set<std::string>& chips);

/// The share of the bandwidth with which caches are read where weights are read with `read`: in the
/// profile's ratio of the two.
double kv_read_beside(const RuntimeProfile& profile, double read);

}  // namespace rigcast::calibration
