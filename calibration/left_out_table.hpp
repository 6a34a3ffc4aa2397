#pragma once
// Every fitted row beside what was forecast for it, for others to work with (scripts/accuracy.py).

#include <string>
#include <vector>

#include "calibration/left_out.hpp"

namespace rigcast::calibration {

/// CSV with a header. `fitted` and `left_out` are forecasts in the metric's unit: of the fit on all
/// rows, and of the one that saw nothing of the row's chip.
std::string left_out_table(const std::vector<Sample>& samples, const LeftOut& errors);

}  // namespace rigcast::calibration
