#pragma once
// How a load is served within its limits, and by how many machines: for each mix and cache, and for
// the ways to share it over several GPUs, the settings that serve most of it.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/catalogue/price_list.hpp"
#include "planner/load_plan/find_way.hpp"
#include "planner/plan.hpp"

namespace rigcast::planner {

/// Machines of one kind that serve all of a load. Sessions are split evenly over them, and stay
/// where they began.
struct Fleet {
  double machines = 0;
  std::optional<double> at_best, at_least;  // machines if they are as fast, and as slow, as the
                                            // interval allows; nullopt: none of them would do
  double share = 0;                         // of one server: users, or requests/s
  ServingFigures figures{};                 // of that share, simulated
  // Where fewer machines would do by what one serves, but by chance their smaller shares break a
  // limit: how many those are, and the limit, "TTFT p95".
  double by_capacity = 0, share_by_capacity = 0;
  std::string broken_by_chance{};  // empty: `machines` is `by_capacity`

  bool has_added() const { return machines > by_capacity; }
};

/// nullopt: a machine serves nothing of it. Where the share of each breaks a limit that a larger
/// one meets, it has up to seven machines more. Errors: those of `serve`.
Result<std::optional<Fleet>> fleet_for(double amount, const ServedWay& way,
                                       const MakeServer& make_server);

struct LoadChoice {
  ServedWay way;
  std::optional<Fleet> fleet;  // nullopt: it serves nothing
};

struct LoadPlan {
  double amount = 0;               // users, or requests/s, that are to be served
  std::optional<double> max_loss;  // nats; nullopt: any
  // Those that meet the limits first, of them the fewest machines, then the least loss.
  std::vector<LoadChoice> choices;
  std::size_t too_large = 0;  // mixes and caches that do not fit
};

/// A server on each of several GPUs, the scenario of one of them.
struct ServerCopies {
  Scenario scenario;
  int servers = 1;
};

struct LoadSearch {
  SearchSpace space;
  FixedSettings fixed;
  std::optional<double> max_loss;  // nats
  bool fastest_only = false;       // the smallest weights alone: machines are compared by them
  /// Of a machine whose GPUs share every layer, which are one in its rig; else found by itself.
  std::optional<ServerCopies> copies{};
  /// Called before each mix and cache, with what is tried.
  std::function<void(const std::string&)> progress;
};

/// All ways of the scenario, whose load says what is to be served. Errors: those of
/// check_capacity() and of its simulations.
Result<std::vector<ServedWay>> find_ways(const Scenario& scenario, const LoadSearch& search,
                                         const QualityTable& quality, const MakeServer& make_server,
                                         std::size_t* too_large);

/// The way with the fewest machines, of those with as many the one that serves most; nullopt: there
/// is none. Errors: those of fleet_for().
Result<std::optional<LoadChoice>> best_of(double amount, std::vector<ServedWay> ways,
                                          const MakeServer& make_server);

/// Adds the ends of the interval to a way and to its machines.
Result<bool> add_interval(double amount, LoadChoice& choice, const MakeServer& make_server);

/// "2 machines instead of 1: one serves up to 120 users, but with 100 TTFT p95 breaks by chance";
/// empty: none was added.
std::string added_text(const ServedWay& way, const Fleet& fleet);

/// Of these ways, each with its machines. The choices that are shown have intervals.
Result<LoadPlan> plan_load(const Scenario& scenario, const LoadSearch& search,
                           const QualityTable& quality, const MakeServer& make_server);

/// Users, or requests/s, of the scenario's load.
double amount_of(const Load& load);

inline constexpr std::size_t kShownChoices = 6;

}  // namespace rigcast::planner
