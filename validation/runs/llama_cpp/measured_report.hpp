#pragma once
// What llama-bench told of a scenario, as a report.

#include <memory>

#include "report/report.hpp"
#include "validation/runs/llama_cpp/llama_bench.hpp"

namespace rigcast::validation {

/// Medians over the repetitions, and their ranges, of a measurement without errors. Memory and
/// starts from the file only where this llama-bench tells them: the prefill's load is the cold
/// start if `prefill_was_cold`, that of the decode, which follows it, the warm one. Memory is that
/// of llama.cpp's buffers: without the context of a GPU and without the rest of the process. Pages
/// of the file whose weights were repacked into a buffer for this CPU count as page cache.
Report measured_report(std::shared_ptr<const Scenario> scenario, const Placement& placement,
                       const LlamaBenchMeasurement& measured, bool prefill_was_cold);

}  // namespace rigcast::validation
