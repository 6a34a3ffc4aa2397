#pragma once
// Robust least squares of the samples' errors and of the parameters' distance from what is likely.

#include <string>
#include <vector>

#include "calibration/sample.hpp"

namespace rigcast::calibration {

struct FitOptions {
  int iterations = 200;
  std::string left_out;  // a chip whose samples take no part; empty: all take part
};

/// Logarithms of the parameters' values, from `start`; none if there is no solution. Deterministic.
std::vector<double> fit(const std::vector<Parameter>& parameters,
                        const std::vector<Sample>& samples, const std::vector<double>& start,
                        const FitOptions& options = {});

/// The priors' logarithms: where a fit begins.
std::vector<double> likely(const std::vector<Parameter>& parameters);

/// Gives every sample its weight: chips count about alike, however many rows they have.
void weigh(std::vector<Sample>& samples);

}  // namespace rigcast::calibration
