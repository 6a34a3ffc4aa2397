#pragma once
// What a fit is worth on a chip it has never seen.

#include <functional>
#include <vector>

#include "calibration/fit.hpp"

namespace rigcast::calibration {

struct LeftOut {
  std::vector<double> values;    // fitted on all samples
  std::vector<double> fitted;    // per sample, log(forecast / measured) with these
  std::vector<double> left_out;  // the same with a fit that saw nothing of the sample's chip
};

/// Fits once on all samples and once without each chip, `threads` at a time. `samples` makes a
/// bound set for a thread to keep. `progress` hears of every chip done.
LeftOut leave_chips_out(const std::vector<Parameter>& parameters,
                        const std::function<std::vector<Sample>()>& samples, int threads,
                        const std::function<void(int done, int all)>& progress);

}  // namespace rigcast::calibration
