#pragma once
// One model's quant mix and cache on a rig: the least loss that is fast enough, else the fastest.
// Cheap: what bytes and bandwidths rule out is not priced, and nothing is simulated.

#include <optional>
#include <string>

#include "planner/plan.hpp"

namespace rigcast::planner {

struct SpeedWanted {
  double min_tokens_per_s = 0;
  std::optional<Seconds> max_prompt;  // time of the prompt
  double max_loss = 0;                // nats
  bool spends_speed = true;           // on less loss, where everything is on GPUs or there is none
};

struct FastEnough {
  std::optional<Candidate> candidate;  // nullopt: none is
  double tokens_per_s = 0;  // of the candidate; without one, what is reached at most; 0: too large
  bool is_late = false;     // fast enough, but its prompt takes too long
  Bytes smallest;           // the smallest weights within the loss
  std::string smallest_quant;
};

/// Elements of the weights that one token passes through: no embedding unless it is the head.
double active_elements(const TensorTable& table, const ModelSpec& model);

/// Tokens per second that no placement of the scenario's weights can exceed: the bytes of weights
/// and cache that every token reads over the memories' rates, with as much on GPUs as they hold.
double most_tokens_per_s(const Scenario& scenario);

/// Searches quant mixes and cache types of `space`; placements if the space leaves them open.
/// Everything is read from memory: what would be read from the disk again does not fit.
FastEnough fastest_within(const Scenario& scenario, const SearchSpace& space,
                          const SpeedWanted& wanted, const QualityTable& quality);

}  // namespace rigcast::planner
