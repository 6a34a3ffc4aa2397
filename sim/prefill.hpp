#pragma once
// The simulation of the prompt, ubatch by ubatch.

#include "perfmodel/resource_use.hpp"
#include "sim/decode.hpp"

namespace rigcast::sim {

struct PrefillForecast {
  Seconds total;   // from the first operation to the logits of the last token
  Seconds sample;  // sampling of the first token, part of `total`
  ResourceUse use;
};

/// Long prompts are sampled at some ubatches and integrated, unless `fidelity` is kExact.
PrefillForecast forecast_prefill(const Scenario& scenario, const Placement& placement,
                                 Fidelity fidelity);

/// The steps of the prompt's ubatches [first, last).
std::vector<Step> prefill_steps(const Scenario& scenario, const Placement& placement,
                                const MemoryPlan& memory, StepGrouping grouping, std::int64_t first,
                                std::int64_t last);

}  // namespace rigcast::sim
