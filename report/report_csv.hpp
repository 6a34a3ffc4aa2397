#pragma once
// One line per decoded position; figures of the whole run are repeated, so that every line is
// complete.

#include <string>

#include "report/report.hpp"

namespace rigcast {

/// A header line, then one line per decoded position.
std::string to_csv(const Report& report);

}  // namespace rigcast
