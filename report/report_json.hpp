#pragma once
// The report as JSON. Its keys are a contract: a new one may be added, none is renamed or removed
// without another schema number.

#include <string>

#include "report/report.hpp"

namespace rigcast {

/// "rigcast.report/1", indented by two spaces.
std::string to_json(const Report& report);

}  // namespace rigcast
