#pragma once
// The simulation of the prompt, ubatch by ubatch.

#include "perfmodel/resource_use.hpp"
#include "sim/fidelity.hpp"

namespace rigcast::sim {

struct PrefillForecast {
  Seconds total;   // from the first operation to the logits of the last token
  Seconds sample;  // sampling of the first token, part of `total`
  ResourceUse use;
};

/// Long prompts are sampled at some ubatches and integrated, unless `fidelity` is kExact.
PrefillForecast forecast_prefill(const Scenario& scenario, const Placement& placement,
                                 Fidelity fidelity);

}  // namespace rigcast::sim
