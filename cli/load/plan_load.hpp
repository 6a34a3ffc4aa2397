#pragma once
// `rigcast plan` with a load: how to serve it, and with how many machines.

#include <string>

#include "cli/shared/output.hpp"
#include "cli/shared/plan_tools.hpp"
#include "core/catalogue/catalogue.hpp"

namespace rigcast::cli {

/// `program`: for which a command is printed instead of the plan; empty: none. Requires a load.
/// Returns the exit code.
int plan_for_load(const TomlDocument& document, const Scenario& scenario,
                  const ConstraintFlags& constraints, const std::string& program,
                  const OutputOptions& output, const Catalogue& catalogue);

}  // namespace rigcast::cli
