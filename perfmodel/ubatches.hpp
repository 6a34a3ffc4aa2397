#pragma once
// The ubatches of a prompt, and the sample of them that stands for a long prompt.

#include <cstdint>
#include <vector>

#include "core/scenario/scenario.hpp"

namespace rigcast {

/// The number of ubatches of the scenario's prompt.
std::int64_t ubatch_count(const Scenario& scenario);

/// Chooses the ubatches to compute, in order: at most `samples` of the first count - 1, evenly
/// spaced with the first and the last among them, and those around the one in which a sliding
/// window fills up, where time bends. The last ubatch is excluded: it has the head and may be
/// shorter.
std::vector<std::int64_t> sampled_ubatches(const Scenario& scenario, std::int64_t count,
                                           std::int64_t samples);

}  // namespace rigcast
