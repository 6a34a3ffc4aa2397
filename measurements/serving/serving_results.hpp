#pragma once
// Files of servers' runs in every form that is read: our table, and what benchmarks write.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "measurements/serving/serving_measurement.hpp"

namespace rigcast {

enum class ServingForm {
  kNone,  // nothing of a server
  kTable,
  kVllmBench,
  kSglangBench,
  kBatchedBench,
  kGuideLlm,
  kAiPerf,
};

/// By content, whatever the file is called; also of a file that ends early.
ServingForm serving_form(std::string_view text);

/// The runs of a file of a form but kNone. Those of benchmarks lack what these do not know: the
/// machine, and mostly how weights are stored.
/// Errors: those of parse_serving_measurements(); JSON that is broken, or a figure that is none,
/// with its line; a file without runs.
Result<std::vector<ServingMeasurement>> parse_serving_results(std::string_view text,
                                                              ServingForm form,
                                                              const std::string& file);

}  // namespace rigcast
