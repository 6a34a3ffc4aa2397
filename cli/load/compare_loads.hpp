#pragma once
// Machines side by side for a load, each with its best way, or as it is stated.

#include <optional>
#include <string>
#include <vector>

#include "cli/load/compared_rigs.hpp"
#include "cli/shared/output.hpp"
#include "cli/shared/plan_tools.hpp"

namespace rigcast::cli {

struct LoadsToCompare {
  std::vector<NamedRig> rigs;
  planner::Comparison::What what;
  PriceList prices;
  std::optional<double> budget{};     // USD
  std::vector<std::string> models{};  // empty: the one of the documents
};

/// `rigcast compare` with a load: each machine with the way that serves most, and how many of them
/// it takes. Returns the exit code.
int compare_for_load(const LoadsToCompare& compared, const ConstraintFlags& constraints,
                     const OutputOptions& output, const Catalogue& catalogue);

/// `rigcast capacity` of several machines, each with the settings of its document.
int capacities_of(const LoadsToCompare& compared, const OutputOptions& output,
                  const Catalogue& catalogue);

}  // namespace rigcast::cli
