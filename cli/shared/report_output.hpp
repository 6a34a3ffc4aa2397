#pragma once
// A report in the format that was asked for.

#include <string>

#include "cli/shared/output.hpp"
#include "report/report.hpp"

namespace rigcast::cli {

std::string render(const Report& report, const OutputOptions& output);

}  // namespace rigcast::cli
