#pragma once
// The time of a server's step, in closed form: new tokens of many sequences in one pass over the
// layers, or in several where they are more than an ubatch holds.

#include <vector>

#include "core/scenario/device_memory.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"
#include "perfmodel/pressure/reclaim.hpp"
#include "sim/machine/copy_links.hpp"

namespace rigcast {

/// New tokens of one sequence behind those in its cache.
struct SequencePart {
  TokenCount cached = 0;
  TokenCount tokens = 1;
  bool has_logits = true;  // of its last token, which is sampled
};

class BatchTime {
 public:
  /// Refers to the scenario, which must outlive it. `memory`: of the caches of all slots.
  BatchTime(const Scenario& scenario, Placement placement, MemoryPlan memory);

  /// The time of a step that computes these parts in their order. Cells of the cache come in
  /// multiples, of which a sequence has half of one too many in the mean: time is without jumps.
  [[nodiscard]] Seconds of(const std::vector<SequencePart>& parts) const {
    return use_of(parts).time;
  }
  /// The same, and what the step moves over the links of the host.
  [[nodiscard]] sim::StepUse use_of(const std::vector<SequencePart>& parts) const;
  /// Tokens outside VRAM while `count` sequences with `cached` tokens each get one more.
  [[nodiscard]] TokenCount cold_tokens(TokenCount count, TokenCount cached) const;
  /// What such a step reads again, because the scenario's memory is too small.
  [[nodiscard]] Paging paging(TokenCount count, TokenCount cached) const;

 private:
  [[nodiscard]] sim::StepUse pass(const std::vector<SequencePart>& parts) const;

  const StepContext s_;
  const Placement placement_;
  const MemoryPlan memory_;
  const std::vector<int> token_layers_, prompt_layers_;  // alike_layers() of these
};

}  // namespace rigcast
