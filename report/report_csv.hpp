#pragma once
// One line a decoded position; what a run has once is repeated, so that every line stands alone.

#include <string>

#include "report/report.hpp"

namespace rigcast {

/// One header line, then one line a decoded position.
std::string to_csv(const Report& report);

}  // namespace rigcast
