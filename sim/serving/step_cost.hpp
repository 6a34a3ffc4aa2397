#pragma once
// What a server's steps cost on the machine of a scenario.

#include <map>
#include <optional>
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
  /// one token: lengths that double, and where blocks are in RAM, excesses that do; computed for
  /// itself where there are prompts.
  sim::StepUse operator()(const StepWork& work);

 private:
  // Lengths of the cache between which time is a line, the second one longer.
  using Lengths = std::pair<TokenCount, TokenCount>;
  Lengths lengths_around(TokenCount count, double cached);
  bool leaves_memory(TokenCount count, TokenCount cached) const;
  std::optional<TokenCount> longest_in_memory(TokenCount count, TokenCount up_to);
  sim::StepUse of_decodes(TokenCount count, double mean_cached);
  sim::StepUse at(TokenCount count, TokenCount cached);

  BatchTime time_;
  Seconds sampling_;                                                 // of one token, on the host
  std::map<std::pair<TokenCount, TokenCount>, sim::StepUse> known_;  // by sequences, cached tokens
  // By sequences: what is known of the lengths at which caches begin to leave memory.
  struct Kink {
    TokenCount none_up_to = -1;
    std::optional<TokenCount> last_without;
  };
  std::map<TokenCount, Kink> kinks_;
};

}  // namespace rigcast
