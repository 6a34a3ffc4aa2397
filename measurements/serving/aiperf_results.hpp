#pragma once
// profile_export_aiperf.json of AIPerf, and profile_export_genai_perf.json of the program before
// it.

#include "measurements/serving/result_json.hpp"
#include "measurements/serving/serving_measurement.hpp"

namespace rigcast {

/// Figures of every metric with its unit, at the top, or under `records` as AIPerf 0.1 has them;
/// `input_config` with the load: `loadgen`, or `phases` with one called profiling, or
/// `perf_analyzer` or `concurrency` of GenAI-Perf. A request's "inter token latency" is (its whole
/// latency - that of the first token) / (tokens - 1), what others call TPOT; that of chunks is not
/// read.
/// Source: src/aiperf/common/models/export_models.py, src/aiperf/config/phases/; genai_perf/
/// export_data/json_exporter.py. Errors stick to `run`.
ServingMeasurement aiperf_run(const ResultObject& run);

}  // namespace rigcast
