#pragma once
// A table of every fitted row and its forecasts, for other programs (scripts/accuracy.py).

#include <string>
#include <vector>

#include "calibration/left_out.hpp"

namespace rigcast::calibration {

/// A CSV with a header. `fitted` and `left_out` are forecasts in the metric's unit: by the fit on
/// all rows, and by the fit without the row's chip.
std::string left_out_table(const std::vector<Sample>& samples, const LeftOut& errors);

}  // namespace rigcast::calibration
