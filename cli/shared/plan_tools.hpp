#pragma once
// What plans and comparisons share: costs, the simulator, what the flags leave open.

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "core/scenario/scenario.hpp"
#include "planner/plan.hpp"

namespace rigcast::cli {

/// Of the whole request, in closed form.
double request_seconds(const Scenario& scenario);
/// Quickly, for ranking; and with interval and cliffs, for showing.
Report forecast_to_rank(std::shared_ptr<const Scenario> scenario);
Report forecast_to_show(std::shared_ptr<const Scenario> scenario,
                        std::vector<TokenCount> positions = {});

/// What the document leaves open.
planner::Space space_of(const TomlDocument& document, const Scenario& scenario);

/// Numbers from `lo` to `hi`; neither text nor NaN.
CLI::Validator number_within(double lo, double hi);

/// What people want, as they typed it.
struct WishFlags {
  double min_tps = 0, max_loss = -1;
  std::string max_ttft, headroom, objective;

  void add_to(CLI::App& verb);
  Result<planner::Wish> wish() const;
};

Result<planner::QualityTable> read_quality(const Catalogue& catalogue);

}  // namespace rigcast::cli
