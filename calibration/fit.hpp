#pragma once
// Robust least squares over the samples' errors and the parameters' distances from their priors.

#include <string>
#include <vector>

#include "calibration/sample.hpp"

namespace rigcast::calibration {

struct FitOptions {
  int iterations = 200;
  std::string left_out;  // a chip whose samples are excluded; empty: none
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
