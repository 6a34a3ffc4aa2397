#pragma once
// Robust least squares over the samples' errors and the parameters' distances from their priors.

#include <functional>
#include <vector>

#include "calibration/fit/sample.hpp"

namespace rigcast::calibration {

struct FitOptions {
  int iterations = 200;
  double tolerance = 1e-8;  // of the sum of squares, at which a fit ends
  int threads = 1;          // that evaluate samples; the result is the same with any number
  std::function<bool(const ResolvedRun&)> leaves_out{};  // empty: no run is left out
};

/// Fits, and returns logarithms of the parameters' values; empty if there is no solution. `start`:
/// initial logarithms. Deterministic.
std::vector<double> fit(const std::vector<Parameter>& parameters,
                        const std::vector<Sample>& samples, const std::vector<double>& start,
                        const FitOptions& options = {});

/// The logarithms of the priors, at which a fit starts.
std::vector<double> likely(const std::vector<Parameter>& parameters);

/// Sets the weight of every sample: chips count about equally, however many rows they have.
void weigh(std::vector<Sample>& samples);

}  // namespace rigcast::calibration
