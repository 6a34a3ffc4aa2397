#pragma once
// The ubatches of a prompt, and which of a long prompt's stand for all.

#include <cstdint>
#include <vector>

#include "core/scenario/scenario.hpp"

namespace rigcast {

/// Ubatches of the scenario's prompt.
std::int64_t ubatch_count(const Scenario& scenario);

/// Of `count` ubatches all but the last, which has the head and may be shorter: at most `samples`
/// of them evenly, the first and the last among them, and those around the one in which a window
/// fills up, which bends the line that time grows on. In order.
std::vector<std::int64_t> sampled_ubatches(const Scenario& scenario, std::int64_t count,
                                           std::int64_t samples);

}  // namespace rigcast
