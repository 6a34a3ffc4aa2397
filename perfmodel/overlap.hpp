#pragma once
// The time of steps whose copies overlap operations, in closed form.

#include "perfmodel/step.hpp"

namespace rigcast {

/// `first_period`: the time of the first step, before which no copy has been prefetched.
/// `steady_period`: the time from the end of one step to the end of the next, when equal steps
/// follow each other. A copy waits for a buffer and for the previous copy; an operation waits for
/// its copy and for the previous operation. Contention for a memory or a link is approximated by
/// sums: no period is shorter than the busiest resource needs.
Seconds first_period(const StepContext& context, const Step& step);
Seconds steady_period(const StepContext& context, const Step& step);

/// The number of steps by which prefetched copies precede their operations, as the buffers allow;
/// 0: nothing is prefetched.
int prefetch_distance(const RuntimeProfile& runtime, const Step& step);

}  // namespace rigcast
