#pragma once
// The time of one decoded token against the tokens in the cache: simulated in short windows at
// chosen positions, integrated between them.

#include <map>
#include <vector>

#include "core/step.hpp"
#include "sim/step_graph.hpp"

namespace rigcast::sim {

/// How closely to look. A sweep compares thousands of scenarios, a report is one.
enum class Detail { kSweep, kFinal, kExact };

class DecodeModel {
 public:
  DecodeModel(const Scenario& scenario, const Placement& placement, Detail detail);

  /// Time of the token that is decoded with `cached` tokens in the cache, itself included, in the
  /// steady state around it. Simulated once per position.
  Seconds period(TokenCount cached);
  /// Busy seconds and bytes by resource of that token.
  ResourceUse use(TokenCount cached) const;
  /// Closed form: no schedule is faster.
  Seconds bound(TokenCount cached) const;

  /// Periods of every token of [first, last], by adaptive sampling; exactly with Detail::kExact.
  std::vector<double> periods(TokenCount first, TokenCount last);
  /// Period by interpolation between the samples taken so far around `cached`.
  double interpolate(TokenCount cached) const;
  /// Samples [first, last] until straight lines between samples are close enough.
  void refine(TokenCount first, TokenCount last);

  const MemoryPlan& memory() const { return memory_; }
  const std::map<TokenCount, double>& samples() const { return samples_; }
  /// Tokens over which time is constant by allocation: cells or blocks.
  TokenCount granularity() const { return granularity_; }

 private:
  Step step(TokenCount cached) const;
  std::vector<double> run_window(TokenCount first, TokenCount last);
  TokenCount snapped(TokenCount cached) const;
  std::vector<TokenCount> breaks(TokenCount first, TokenCount last) const;
  void bisect(TokenCount a, TokenCount b, double whole);

  const Scenario& s_;
  const Placement& p_;
  const Detail detail_;
  MemoryPlan memory_;
  StepGrouping grouping_;
  bool overlaps_ = false;
  TokenCount granularity_ = 1;
  StepGraph graph_;
  std::map<TokenCount, double> samples_;
};

}  // namespace rigcast::sim
