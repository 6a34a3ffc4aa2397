#pragma once
// A measured speed, with its forecast as a function of the parameters.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibration/fit/parameters.hpp"
#include "measurements/resolve.hpp"
#include "perfmodel/serial_time.hpp"

namespace rigcast::calibration {

class Sample {
 public:
  /// Makes a sample of a run's tokens per second, in decode or prefill. `profile`: that of the
  /// run's runtime, before fitting.
  Sample(const ResolvedRun& run, const RuntimeProfile& profile);

  /// Finds the parameters on which the forecast depends. Values are logarithms.
  void bind(const std::vector<Parameter>& parameters, const std::vector<double>& values);
  /// Takes those that another sample of the same run has found.
  void bind_like(const Sample& other, const std::vector<Parameter>& parameters,
                 const std::vector<double>& values);
  /// Indices of those parameters.
  const std::vector<int>& depends_on() const { return depends_on_; }

  /// Logarithm of forecast over measured speed, with its parameters at `values`, in the order of
  /// depends_on().
  double error(const double* values) const;
  /// The error at the values of all parameters, as of a source without a factor.
  double error_among(const std::vector<double>& all) const;

  const ResolvedRun& run() const { return *run_; }
  double weight = 1.0;

 private:
  double error() const;
  std::vector<int> applying(const std::vector<Parameter>& parameters) const;
  double* figure(const Parameter& parameter) const;
  void set(const std::vector<Parameter>& parameters, const std::vector<double>& values);

  const ResolvedRun* run_;
  std::unique_ptr<Scenario> scenario_;
  std::unique_ptr<double> source_factor_ = std::make_unique<double>(1.0);
  std::unique_ptr<SerialForecast> forecast_;
  std::vector<int> applying_;  // of the profile and the GPUs; found once
  std::vector<int> depends_on_;
  std::vector<double*> figures_;
};

}  // namespace rigcast::calibration
