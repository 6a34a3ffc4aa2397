#pragma once
// A scenario as scripts/run_transformers.py is asked for it.

#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "report/report.hpp"

namespace rigcast::validation {

/// Why the scenario is not run with transformers, whatever its placement: the errors below.
std::optional<Error> check_transformers(const Scenario& scenario);

/// The request as JSON: shape, dtype, attention, cache, devices and tokens of the forecast's
/// scenario, with its placement. `flash_attention` is attention "sdpa", without it "eager"; the KV
/// policy `stream` is the offloaded cache, KV types q4_0 and q8_0 are quantized ones of 4 and 8
/// bits. Errors: kBadInput with what the script has not: an architecture, quantized weights, layers
/// on GPU and CPU, several users or GPUs, fewer than two tokens.
Result<std::string> transformers_request(const Report& forecast, int repeat);

}  // namespace rigcast::validation
