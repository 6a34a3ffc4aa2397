#pragma once
// What llama-batched-bench prints: sequences in lockstep, without a server.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "measurements/serving/serving_measurement.hpp"

namespace rigcast {

/// True if there is a line of either form in it.
bool is_batched_bench(std::string_view text);

/// --output-format jsonl, or the table that it prints without; among what else it printed. Neither
/// names model or machine. Source: tools/batched-bench/batched-bench.cpp.
/// Errors: a line that ends early, a figure that is none.
Result<std::vector<ServingMeasurement>> batched_bench_runs(std::string_view text,
                                                           const std::string& file);

}  // namespace rigcast
