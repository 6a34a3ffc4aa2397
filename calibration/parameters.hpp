#pragma once
// The figures of a runtime profile that measurements can tell, and what is known of each before.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/runtime_profile.hpp"

namespace rigcast::calibration {

/// A positive figure, fitted as its logarithm.
struct Parameter {
  std::string path;          // in the profile's file, "gpu.ampere.read"
  const char* unit = "";     // there: "us", "ns", "GB/s"; "": a number
  std::string architecture;  // of the GPUs it is about; empty: not about one
  std::string runtime;       // the one profile it belongs to; empty: all that build on one
  double prior = 1.0;        // the value that is likely without measurements
  int parent = -1;           // index of a parameter near whose value it is likely; -1: none
  double ratio = 1.0;        // what it is then likely to be, of the parent's value
  double spread = 0.3;       // standard deviation of the logarithm around that
  double least = 1e-12, most = 1e12;
  /// Where the figure is in a profile.
  std::function<double*(RuntimeProfile&)> in;
};

/// Its value as the profile's file has it: "\"1.83 us\"", "0.95". Four digits.
std::string toml_value(const Parameter& parameter, double value);

/// All parameters of `profile`, whose own figures are the priors, and those of `forks`: profiles
/// that build on it and may differ in a few. Parents come before their children.
std::vector<Parameter> parameters(const RuntimeProfile& profile,
                                  const std::vector<RuntimeProfile>& forks);

}  // namespace rigcast::calibration
