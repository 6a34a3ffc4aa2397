#pragma once
// Machines side by side: how much of a load each serves, how many of them it takes, what they cost.

#include <optional>
#include <string>
#include <vector>

#include "core/catalogue/price_list.hpp"
#include "planner/load_plan/load_plan.hpp"

namespace rigcast::planner {

struct RigLoad {
  std::string name;
  PartsPrice price;             // of one machine, or of its GPUs
  std::optional<double> watts;  // GPUs and CPU at their limits; nullopt: not known of all
  std::optional<ServedWay> way;
  std::string why_not;         // where there is no way, or it serves nothing
  std::optional<Fleet> fleet;  // where an amount is asked for

  bool serves() const { return way && way->most() > 0; }
  /// USD of all machines, of one where no amount is asked for.
  std::optional<double> usd() const;
  /// USD for each user, or request/s: of those that are asked for, else of those that one serves.
  std::optional<double> usd_each(std::optional<double> amount) const;
};

struct RigLoads {
  std::string model, load, slo;    // in words
  bool in_users = true;            // else in requests/s
  bool gpus_alone = true;          // prices are of GPUs alone
  std::optional<double> amount;    // that is to be served
  std::optional<double> budget;    // USD
  std::optional<double> max_loss;  // nats, of all machines alike
  std::vector<RigLoad> rigs;
};

/// Sorts: those that serve it within the budget come first, the cheapest of them first; without an
/// amount those that serve most for the money. One without a price comes after all with one.
void rank(RigLoads& loads);
/// True if it serves what is asked for within the budget.
bool qualifies(const RigLoads& loads, const RigLoad& rig);
/// The first one and the reason.
std::string verdict_text(const RigLoads& loads);
/// "TTFT p95; slots 14 %": what one more breaks, and what it waits for.
std::string limit_of(const ServedWay& way);

}  // namespace rigcast::planner
