#pragma once
// Rigs side by side: the best plan of each for one or several models.

#include <optional>
#include <string>
#include <vector>

#include "planner/plan.hpp"

namespace rigcast::planner {

struct ComparedModel {
  std::string model;
  std::optional<Choice> best;  // nullopt: it does not fit
  std::string lack;            // then: why
};

struct ComparedRig {
  std::string name;
  std::optional<double> usd;  // of the parts that differ; nullopt: a part has no price
  std::string price_note;     // where the price is from: "launch 2020-09"
  std::optional<double> watts;
  std::vector<ComparedModel> models;

  /// Everything fits, meets the wishes, and has a price within the budget if there is one.
  bool qualifies(std::optional<double> budget) const;
};

/// What is cheaper for its speed comes first, of those that qualify; a part without a price wins no
/// budget. `budget` in USD.
void rank_rigs(std::vector<ComparedRig>& rigs, std::optional<double> budget);

/// The first is the rig as it is, with no price; of the others, whose price is that of one new
/// part,
/// those that gain nothing are dropped, and what gains most for its price comes first.
void rank_upgrades(std::vector<ComparedRig>& rigs, std::optional<double> budget);

/// What wins, and why: of rank_rigs and of rank_upgrades.
std::string verdict_text(const std::vector<ComparedRig>& rigs, std::optional<double> budget);
std::string upgrade_text(const std::vector<ComparedRig>& rigs, std::optional<double> budget);

/// Speed at the position nearest to `tokens`.
double speed_at(const Report& report, TokenCount tokens);

/// "rigcast.comparison/1"
std::string to_json(const std::vector<ComparedRig>& rigs, std::optional<double> budget);

}  // namespace rigcast::planner
