#pragma once
// Compares rigs by their best plans for one or several models.

#include <optional>
#include <string>
#include <vector>

#include "planner/plan.hpp"

namespace rigcast::planner {

struct ComparedModel {
  std::string model;
  std::optional<RankedPlan> best;  // nullopt: it does not fit
  std::string why_not;             // why it does not fit
};

struct ComparedRig {
  std::string name;
  std::optional<double> usd;  // price of the parts that differ; nullopt: a part has no price
  std::string price_note;     // where the price is from: "launch 2020-09"
  std::optional<double> watts;
  std::vector<ComparedModel> models;

  /// True if every model fits, meets the constraints, and the price is within the budget, if there
  /// is one.
  bool qualifies(std::optional<double> budget) const;
};

/// Sorts by price for speed; rigs that qualify come first. A rig with an unpriced part wins no
/// budget. `budget` in USD.
void rank_rigs(std::vector<ComparedRig>& rigs, std::optional<double> budget);

/// The first rig is the present one, without a price; the price of each other is that of one new
/// part. Drops those that gain nothing, and sorts by gain for the price.
void rank_upgrades(std::vector<ComparedRig>& rigs, std::optional<double> budget);

/// The winner and the reason: for rank_rigs() and for rank_upgrades().
std::string verdict_text(const std::vector<ComparedRig>& rigs, std::optional<double> budget);
std::string upgrade_text(const std::vector<ComparedRig>& rigs, std::optional<double> budget);

/// Speed at the position nearest to `tokens`.
double speed_at(const Report& report, TokenCount tokens);

/// "rigcast.comparison/1"
std::string to_json(const std::vector<ComparedRig>& rigs, std::optional<double> budget);

}  // namespace rigcast::planner
