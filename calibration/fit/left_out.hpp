#pragma once
// Cross-validation: the error of a fit on chips, and on families of chips, that it has not seen.

#include <functional>
#include <vector>

#include "calibration/fit/fit.hpp"

namespace rigcast::calibration {

struct LeftOut {
  std::vector<double> values;  // fitted on all samples; empty: a fit has no solution
  std::vector<double> fitted;  // per sample, log(forecast / measured) with these
  // The same, with a fit that excluded the sample's chip and some others; zero for a dense run,
  // here and below.
  std::vector<double> left_out;
  std::vector<double> family_left_out;  // with a fit that excluded every chip of its families
};

/// Fits once on all samples, then so that every chip and every family is left out once, a few
/// unrelated ones at a time; with `threads` threads. `samples` makes a set of samples for each
/// thread. `progress` is called for every finished fit without some.
LeftOut leave_chips_out(const std::vector<Parameter>& parameters,
                        const std::function<std::vector<Sample>()>& samples, int threads,
                        const std::function<void(int done, int all)>& progress);

}  // namespace rigcast::calibration
