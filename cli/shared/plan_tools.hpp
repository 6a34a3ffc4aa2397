#pragma once
// Tools that plans and comparisons share: costs, the simulator, the search space.

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/shared/flag_checks.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/scenario/scenario.hpp"
#include "planner/plan.hpp"

namespace rigcast::cli {

/// Seconds of the whole request, in closed form.
double request_seconds(const Scenario& scenario);
/// Quickly, for ranking; and with interval and cliffs, for showing.
Report forecast_to_rank(std::shared_ptr<const Scenario> scenario);
Report forecast_to_show(std::shared_ptr<const Scenario> scenario,
                        std::vector<TokenCount> positions = {});

/// The search space of everything that the document leaves open.
planner::SearchSpace space_of(const TomlDocument& document, const Scenario& scenario);

/// The constraints as the user typed them.
struct ConstraintFlags {
  double min_tps = 0, max_loss = -1;
  std::string max_ttft, objective;

  void add_to(CLI::App& verb);
  Result<planner::Constraints> constraints() const;
};

Result<planner::QualityTable> read_quality(const Catalogue& catalogue);

}  // namespace rigcast::cli
