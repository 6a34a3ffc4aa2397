#pragma once
// What llama-bench told of a scenario, as a report.

#include <memory>
#include <vector>

#include "report/report.hpp"
#include "validation/runs/llama_cpp/llama_bench.hpp"

namespace rigcast::validation {

/// Medians over the repetitions, and their ranges, of a measurement without errors. Memory and
/// starts from the file only where this llama-bench tells them: the prefill's load is the cold
/// start if `prefill_was_cold`, that of the decode, which follows it, the warm one. Memory is that
/// of llama.cpp's buffers: without the context of a GPU and without the rest of the process.
Report measured_report(std::shared_ptr<const Scenario> scenario, const Placement& placement,
                       const LlamaBenchMeasurement& measured, bool prefill_was_cold);

/// Counts every weight once. llama.cpp maps the file from the first to the last tensor that the
/// host needs (llama_model_loader::get_mapping_range), so the buffer of the mapping includes those
/// between them that were copied to a GPU, or repacked for the CPU. What all buffers of weights
/// hold in excess of the model moves from the host's weights to its page cache, up to the `mapped`
/// bytes. Devices for which that was done do not change.
void leave_copied_pages(const Scenario& scenario, const Placement& placement, Bytes mapped,
                        std::vector<DeviceMemory>& devices);

}  // namespace rigcast::validation
