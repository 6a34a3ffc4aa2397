#pragma once
// The time by which ways to run a model are compared.

#include "core/scenario/scenario.hpp"

namespace rigcast {

/// The workload's request in closed form, by a loaded model: prompt and all output tokens. Of a
/// conversation that fills the context, the mean of its turns: Simpson's rule over the first, the
/// middle and the last one, which is exact where a turn's time is a cubic of its depth.
Seconds mean_turn(const Scenario& scenario);

}  // namespace rigcast
