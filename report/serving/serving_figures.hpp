#pragma once
// What a served load came to, in the figures of a report.

#include "core/scenario/slo.hpp"
#include "report/serving/served_load.hpp"
#include "report/serving/serving_report.hpp"

namespace rigcast {

struct ServedLoad {
  const ServingRun& run;
  TokenCount cache_tokens = 0;        // of requests that are as long as the context
  TokenCount whole_cache_tokens = 0;  // of requests that no window cuts
  std::size_t cache_units = 0;        // blocks or slots
  Bytes ram{};                        // of the cache's second tier; 0: there is none
  Bytes disk{};                       // of its tier on disk; 0: there is none
  Seconds before_scheduling{};        // of a request, before its arrival at the scheduler
  bool is_open = false;
  bool slots = false;         // the units are slots
  std::size_t shortened = 0;  // requests that the context cut
  Slo slo{};
};

/// Of at least one request. Percentiles and means of requests leave out the first ones, until the
/// server has filled (MSER-5: White, Simulation 69(6), 1997); sums over time count all.
ServingFigures figures_of(const ServedLoad& served);

/// Whether requests wait longer and longer, each of four quarters longer than the one before it,
/// and whether more are left waiting when the last arrives than chance explains: more than one over
/// the root of their number.
ServingState state_of(const ServingRun& run);

}  // namespace rigcast
