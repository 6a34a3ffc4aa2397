#pragma once
// What a server's steps cost on the machine of a scenario.

#include <map>
#include <utility>

#include "sim/serving/batch_time.hpp"
#include "sim/serving/serve.hpp"

namespace rigcast {

class StepCost {
 public:
  /// Refers to the scenario, which must outlive it and whose runtime has a server. `memory`: of the
  /// caches of all slots.
  StepCost(const Scenario& scenario, Placement placement, MemoryPlan memory)
      : time_(scenario, std::move(placement), std::move(memory)),
        sampling_(scenario.runtime.server->logit.value * double(scenario.model.vocabulary)) {}

  /// Computed for a few lengths of the cache and interpolated between them where all sequences get
  /// one token, computed for itself where there are prompts.
  sim::StepUse operator()(const StepWork& work);

 private:
  sim::StepUse of_decodes(TokenCount count, double mean_cached);
  sim::StepUse at(TokenCount count, TokenCount cached);

  BatchTime time_;
  Seconds sampling_;                                                 // of one token, on the host
  std::map<std::pair<TokenCount, TokenCount>, sim::StepUse> known_;  // by sequences, cached tokens
};

}  // namespace rigcast
