#pragma once
// The figures of a runtime profile that measurements can determine, with their priors.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/metrics.hpp"
#include "core/runtime/runtime_profile.hpp"

namespace rigcast::calibration {

/// A positive figure, fitted as its logarithm.
struct Parameter {
  std::string path;          // in the profile's file, "gpu.ampere.read"
  const char* unit = "";     // unit in the file: "us", "ns", "GB/s"; "": a number
  std::string architecture;  // of the GPUs to which it applies; empty: none
  std::string chip;          // id of the GPU or CPU to which it applies; empty: all
  std::string source;  // whose rows it scales, of one metric, in place of a figure; empty: none
  SpeedMetric metric = SpeedMetric::kDecode;
  std::string runtime;  // the one profile to which it belongs; empty: all that build on
  double prior = 1.0;   // the value that is likely without measurements
  int parent = -1;      // index of the parameter from which its prior follows;
  double ratio = 1.0;   // its likely value relative to the parent's
  double spread = 0.3;  // standard deviation of the logarithm around that
  double least = 1e-12, most = 1e12;
  /// The address of the figure in a profile; empty for a factor of a source.
  std::function<double*(RuntimeProfile&)> in;
};

/// The value in the format of the profile's file, with four digits: "\"1.83 us\"", "0.95".
std::string toml_value(const Parameter& parameter, double value);

/// What rows have in common beside a profile's figures.
struct RowsOf {
  std::set<std::string> chips;  // ids of GPUs and CPUs, each faster or slower than its architecture
  std::set<std::string> sources;  // whose machines are set up alike: settings that no row states
};

/// All parameters of `profile`, whose own figures are the priors, and those of `forks`: profiles
/// that build on it and may differ in a few figures. Parents come before their children.
std::vector<Parameter> parameters(const RuntimeProfile& profile,
                                  const std::vector<RuntimeProfile>& forks,
                                  const RowsOf& rows = {});

}  // namespace rigcast::calibration
