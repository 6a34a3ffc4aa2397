#pragma once
// benchmarks.json of GuideLLM: one file of several loads.

#include <vector>

#include "measurements/serving/result_json.hpp"
#include "measurements/serving/serving_measurement.hpp"

namespace rigcast {

/// Of a report with `benchmarks`, each with `metrics`: GuideLLM 0.2 to 0.8. Its strategy is under
/// `args` (0.2, 0.3), or under `config` or `scheduler`, and is named by `type_` or `kind`. Its
/// "inter-token latency" of a request is what others call TPOT, and its own TPOT includes the first
/// token: that one is not read.
/// Source: src/guidellm/benchmark/ and src/guidellm/schemas/. Errors stick to `report`.
std::vector<ServingMeasurement> guidellm_runs(const ResultObject& report);

}  // namespace rigcast
