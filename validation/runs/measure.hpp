#pragma once
// From a scenario to a measured report: weights, prompt, runs.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/scenario/scenario.hpp"
#include "engine/gguf/file.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/run/batch_options.hpp"
#include "engine/run/executor.hpp"
#include "report/report.hpp"
#include "report/trace.hpp"
#include "validation/runs/execute_options.hpp"
#include "validation/runs/load/serve_load.hpp"

namespace rigcast::validation {

struct Executed {
  Report report;
  std::vector<TraceEvent> events;
  std::optional<std::string> busy;        // what else ran on the machine's cores, if it mattered
  std::optional<double> traced_slowdown;  // share by which the traced run took longer; absent:
                                          // there are no events
};

/// A warning where a run goes past the positions that the model was trained on.
std::optional<std::string> past_training(const ModelSpec& model, TokenCount positions);

/// A model that is ready to run: synthetic weights, or the scenario's file.
Result<std::unique_ptr<engine::Executor>> make_executor(const Scenario& scenario,
                                                        const ExecuteOptions& options);

/// The same for many sequences, from an open file. Throws Interrupted. Error: the backend has none.
Result<std::unique_ptr<engine::BatchExecutor>> make_batch_executor(
    const Scenario& scenario, const ExecuteOptions& options, const engine::BatchOptions& batch,
    const engine::GgufFile& file);

/// Serves the scenario's load in real time: with one, and a scheduler. Errors: those of
/// engine::check_batch and of serve_load.
Result<ExecutedLoad> execute_load(std::shared_ptr<const Scenario> scenario,
                                  const ExecuteOptions& options);

/// Times the scenario's workload: from the file cold and warm, where there is one, and `repeat`
/// times resident.
Result<Executed> execute(std::shared_ptr<Scenario> scenario, const ExecuteOptions& options);

}  // namespace rigcast::validation
