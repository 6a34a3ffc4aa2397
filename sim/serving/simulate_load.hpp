#pragma once
// A scenario's load on its machine, served by its runtime's rules.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/scenario/scenario.hpp"
#include "perfmodel/context/profile_interval.hpp"
#include "report/serving/serving_figures.hpp"
#include "report/serving/serving_report.hpp"
#include "sim/serving/cache/ram_tier.hpp"
#include "sim/serving/step_cost.hpp"

namespace rigcast {

/// The machine as it is forecast, or at an end of the forecast's interval.
enum class MachineSpeed { kForecast, kFastest, kSlowest };

/// The server of a scenario, which must outlive it: loads of all kinds can be tried on it, which
/// share what is known of its steps.
class LoadSimulation {
 public:
  /// Errors: a runtime that serves one request at a time; weights and caches that do not fit.
  static Result<LoadSimulation> make(const Scenario& scenario);

  /// Called with the number of requests that have arrived, at every one.
  using Watch = std::function<void(std::size_t)>;
  void watch(Watch watch) { watch_ = std::move(watch); }
  /// Called with what was served, of the forecast and not of the ends of its interval.
  using Served = std::function<void(const ServedLoad&)>;
  void on_served(Served served) { served_ = std::move(served); }

  [[nodiscard]] const Placement& placement() const { return placement_; }
  [[nodiscard]] const MemoryPlan& memory() const { return memory_; }
  /// Tokens of the KV cache of all requests, if each has as many as the context allows.
  [[nodiscard]] TokenCount cache_tokens() const;

  /// Blocks or slots of the KV cache.
  [[nodiscard]] std::size_t cache_units() const;

  /// `events`, if given, is told of everything. Errors: those of offer() and serve(); no request
  /// arrives.
  Result<ServingFigures> figures(const Load& load, MachineSpeed speed = MachineSpeed::kForecast,
                                 ServingWatch* events = nullptr);
  /// Of the load that was served last: in words, how short memory was; empty: it was not.
  [[nodiscard]] std::string paging_note() const;
  /// Also at both ends of the forecast's interval. `events` is told of the forecast.
  Result<ServingReport> report(const Load& load, ServingWatch* events = nullptr);

 private:
  LoadSimulation(const Scenario& scenario, Placement placement, MemoryPlan memory,
                 const CacheRoom& room, RamTier ram);
  const Scenario* scenario_;
  Placement placement_;
  MemoryPlan memory_;
  CacheRoom room_;
  RamTier ram_;
  StepCost cost_;
  // Speeds at the ends of the interval, as shares of the forecast: of steps without prompts, and
  // with some.
  ProfileInterval decode_, prompt_;
  Watch watch_;
  Served served_;
  // Of the forecast that was made last: steps, those that read again what memory had no room for,
  // and what these read.
  struct Paged {
    std::int64_t steps = 0, short_of_memory = 0;
    Bytes bytes;
    bool full = false;
  };
  Paged paged_;
};

}  // namespace rigcast
