#pragma once
// The steps of a scenario's request, one by one.

#include <vector>

#include "core/scenario/scenario.hpp"
#include "perfmodel/request_batches.hpp"
#include "perfmodel/step.hpp"

namespace rigcast::fixtures {

/// The step of the output token that is decoded when the cache holds `cached` tokens, itself
/// included.
inline Step token_step(const Scenario& s, const Placement& placement, const MemoryPlan& memory,
                       TokenCount cached, StepGrouping grouping = {}) {
  const RequestBatches batches(s, s.workload);
  return decode_step(s, placement, memory, batches.token(cached), grouping);
}

/// The steps of the prompt's ubatches.
inline std::vector<Step> prompt_steps(const Scenario& s, const Placement& placement,
                                      const MemoryPlan& memory) {
  const RequestBatches batches(s, s.workload);
  std::vector<Step> steps;
  for (std::int64_t i = 0; i < batches.ubatch_count(); ++i)
    steps.push_back(prefill_step(s, placement, memory, batches.ubatch(i), batches.is_last(i)));
  return steps;
}

}  // namespace rigcast::fixtures
