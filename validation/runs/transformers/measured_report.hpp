#pragma once
// What transformers was measured at, as a report.

#include <memory>

#include "report/report.hpp"
#include "validation/runs/transformers/output.hpp"

namespace rigcast::validation {

/// Medians over the repeats, and their ranges. The TTFT is that of resident weights, without
/// tokenization; decode is the tokens after the first, without the copy of the cache to a CPU that
/// decodes after a GPU's prompt. Memory of a GPU is what torch allocated at most, of which
/// `activations` is what neither weights nor cache are; without the CUDA context, without what
/// torch's allocator holds in reserve, and absent where the cache's bytes are not told.
Report measured_report(std::shared_ptr<const Scenario> scenario, const Placement& placement,
                       const TransformersOutput& measured);

}  // namespace rigcast::validation
