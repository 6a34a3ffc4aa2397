#pragma once
// What each resource does when, short enough to be drawn: spans of a trace that touch are one.

#include <string>
#include <string_view>
#include <vector>

#include "report/trace.hpp"

namespace rigcast {

/// {"start", "end_s", "lanes": [{"name", "spans": [[from_s, to_s, what]]}]} in the order in which
/// tracks first appear, with at most 400 spans; empty: no events. `start`: resident, warm or cold,
/// or "token": a step of the decode.
std::string timeline_json(const std::vector<TraceEvent>& events, std::string_view start);

/// The first decoded token's step, from its own begin; empty: none was traced.
std::vector<TraceEvent> decode_step_of(const std::vector<TraceEvent>& events);

}  // namespace rigcast
