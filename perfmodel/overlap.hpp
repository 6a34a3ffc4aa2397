#pragma once
// Time of steps whose copies run beside operations, in closed form.

#include "perfmodel/step.hpp"

namespace rigcast {

/// Time from the end of one such step to the end of the next, when steps like it follow each other.
/// Copies wait for a buffer and for the one before, operations for their copy and the operation
/// before. Who shares a memory or a link is known by its sums alone: no period is shorter than its
/// busiest resource needs.
/// `first_period`: of the first step, before which no copy has run ahead.
Seconds first_period(const StepContext& context, const Step& step);
Seconds steady_period(const StepContext& context, const Step& step);

}  // namespace rigcast
