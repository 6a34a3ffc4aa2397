#pragma once
// A load, served by the engine in real time, and what it came to.

#include <cstdint>
#include <memory>
#include <string>

#include "core/scenario/scenario.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/run/batch_options.hpp"
#include "report/report.hpp"

namespace rigcast::validation {

/// Pools and steps of an executor for the scenario's scheduler, of which it has one.
engine::BatchOptions batch_options(const Scenario& scenario);

struct LoadOptions {
  std::uint64_t seed = 1;  // of the prompts' tokens
  engine::Sampling sampling{};
};

struct ExecutedLoad {
  Report report;         // with `serving`; without placement and memory
  std::string requests;  // request_csv()
};

/// Serves the load of a scenario that has one, and a scheduler. Errors: rules that the engine has
/// not; a load that cannot be read; an interruption before a request had its answer. Requests that
/// fail are told in a warning, and counted in no figure.
Result<ExecutedLoad> serve_load(std::shared_ptr<const Scenario> scenario,
                                engine::BatchExecutor& executor, const LoadOptions& options);

}  // namespace rigcast::validation
