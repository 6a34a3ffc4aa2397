#pragma once
// The time of one decoded token as a function of the tokens in the cache: simulated in short
// windows at chosen positions, and integrated between them.

#include <map>
#include <vector>

#include "perfmodel/request_batches.hpp"
#include "perfmodel/resource_use.hpp"
#include "perfmodel/step.hpp"
#include "sim/fidelity.hpp"
#include "sim/step_graph.hpp"

namespace rigcast::sim {

class DecodeModel {
 public:
  /// Refers to both, which must outlive it.
  DecodeModel(const Scenario& scenario, const Placement& placement, Fidelity fidelity);

  /// Time of the token that is decoded when the cache holds `cached` tokens, itself included, in
  /// the steady state around it. Each position is simulated once.
  Seconds period(TokenCount cached);
  /// What that token brings back into RAM.
  Paging paging(TokenCount cached) const { return step(cached).page_in; }
  /// Busy seconds and bytes by resource of that token.
  ResourceUse use(TokenCount cached) const;

  /// Periods of every token of [first, last], by adaptive sampling; exactly with Fidelity::kExact.
  std::vector<double> periods(TokenCount first, TokenCount last);
  /// Period by interpolation along the curve refined so far.
  double interpolate(TokenCount cached) const;
  /// Samples [first, last] until straight lines between samples are close enough.
  void refine(TokenCount first, TokenCount last);

  const MemoryPlan& memory() const { return memory_; }
  /// The sampled positions, between which time is nearly linear.
  const std::map<TokenCount, double>& curve() const { return curve_; }
  /// The number of tokens over which time is constant because of allocation: a cell or a block.
  TokenCount granularity() const { return granularity_; }

 private:
  Step step(TokenCount cached) const;
  /// Under pressure, what RAM holds depends on how long the cache is.
  MemoryPlan memory_at(TokenCount cached) const;
  std::vector<double> run_window(TokenCount first, TokenCount last);
  TokenCount snapped(TokenCount cached) const;
  std::vector<TokenCount> breaks(TokenCount first, TokenCount last) const;
  double curve_point(TokenCount snapped);
  void bisect(TokenCount a, TokenCount b, double whole);

  const StepContext s_;
  const MemoryContext memory_context_;
  const RequestBatches batches_;
  const Placement& p_;
  const Fidelity fidelity_;
  MemoryPlan memory_;
  StepGrouping grouping_;
  bool overlaps_ = false;
  TokenCount prefetch_distance_ = 0;  // tokens by which prefetched copies precede operations
  TokenCount granularity_ = 1;
  StepGraph graph_;
  std::map<TokenCount, double> samples_;  // every position simulated
  std::map<TokenCount, double> curve_;    // samples in the middle of cells or blocks
};

}  // namespace rigcast::sim
