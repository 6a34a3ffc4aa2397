#pragma once
// Executes a run in a process of its own: a driver keeps memory of the models that a process ran
// before, and a crash ends no other run.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "validation/runs/archived_scenario.hpp"
#include "validation/validation.hpp"

namespace rigcast::validation {

/// The other process's verb, which `rigcast --help` does not list, with a request as JSON.
inline constexpr const char* kWorkerVerb = "run-worker";

/// The request to the worker process.
struct WorkerRequest {
  std::string folder;     // of the validation
  std::size_t index = 0;  // of the run in it
  ExecutionSettings how;
  std::string weights;            // a file to start from; empty: as the scenario says
  std::optional<int> gpu_layers;  // absent: as the scenario says, or as many as fit
  // Of a load: as many as the forecast is of, which takes more where the scenario's are too few for
  // a server to fill. Absent: as the scenario says.
  std::optional<std::int64_t> requests;
  int time_limit = 600;  // seconds
};

/// The answer of the worker process.
struct WorkerAnswer {
  std::string measured;                 // the JSON of its report
  std::vector<ActivityRow> activities;  // `measured_s`
  std::optional<std::string> busy;      // as Executed has it
  double traced_slowdown = 0;
  BytesPerSecond ceiling;  // of memory, right after the run
};

/// Waits for it. An interrupt is handed on. Errors: those of execute; kMachine where the process
/// cannot be made, or ended before it told anything.
Result<WorkerAnswer> run_in_subprocess(const WorkerRequest& request);

/// Called in the other process: executes the request and returns the text that run_in_subprocess
/// reads from its standard output. Errors: the request cannot be parsed.
Result<std::string> answer_request(const std::string& request, const Catalogue& catalogue);

}  // namespace rigcast::validation
