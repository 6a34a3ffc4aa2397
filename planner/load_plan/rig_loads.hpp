#pragma once
// Machines side by side: how much of a load each serves, how many of them it takes, what they cost.

#include <optional>
#include <string>
#include <vector>

#include "core/catalogue/price_list.hpp"
#include "planner/compare.hpp"
#include "planner/load_plan/load_plan.hpp"

namespace rigcast::planner {

struct RigLoad {
  std::string name;
  PartsPrice price;             // of one machine, of its GPUs, or of its new part
  std::optional<double> watts;  // GPUs and CPU at their limits; nullopt: not known of all
  std::optional<ServedWay> way;
  std::string why_not;               // where there is no way, or it serves nothing
  std::optional<Fleet> fleet;        // where an amount is asked for
  bool is_beyond_budget = false;     // by its price alone: nothing was computed
  std::vector<std::string> notes{};  // on its settings

  bool serves() const { return way && way->most() > 0; }
  /// USD of all machines, of one where no amount is asked for.
  std::optional<double> usd() const;
  /// USD for each user, or request/s: of those that are asked for, else of those that one serves.
  std::optional<double> usd_each(std::optional<double> amount) const;
};

struct RigLoads {
  std::string model, load, slo;                     // in words
  bool in_users = true;                             // else in requests/s
  Comparison::What what = Comparison::What::kGpus;  // kUpgrades: of the one machine there is
  std::optional<double> amount;                     // that is to be served
  std::optional<double> budget;                     // USD
  std::optional<double> max_loss;                   // nats, of all machines alike
  std::vector<RigLoad> rigs;                        // kUpgrades: the first is the rig as it is
  std::size_t beyond_budget = 0;  // kUpgrades: parts that were left out, since each costs more

  bool upgrades() const { return what == Comparison::What::kUpgrades; }
};

/// USD for it: of all machines, or of the new part. For each user, or request/s, of an upgraded rig
/// only where it serves what is asked for alone.
std::optional<double> usd_of(const RigLoads& loads, const RigLoad& rig);
std::optional<double> usd_each_of(const RigLoads& loads, const RigLoad& rig);
/// Sorts: those that serve it within the budget come first, the cheapest of them first; without an
/// amount those that serve most for the money. One without a price comes after all with one. Of
/// upgrades, drops those with which the rig serves no more than without.
void rank(RigLoads& loads);
/// True if it serves what is asked for within the budget; a rig that is upgraded, alone.
bool qualifies(const RigLoads& loads, const RigLoad& rig);
/// Why it takes more machines than by what one serves, or why an upgraded rig that serves enough
/// does not qualify, and whether that costs it the first place; empty: neither.
std::string added_text(const RigLoads& loads, const RigLoad& rig);
/// The notes of all rigs, those that are alike with the names of their rigs before them.
std::vector<std::string> notes_of(const RigLoads& loads);
/// The first one and the reason.
std::string verdict_text(const RigLoads& loads);
/// "TTFT p95; slots 14 %": what one more breaks, and what it waits for.
std::string limit_of(const ServedWay& way);

}  // namespace rigcast::planner
