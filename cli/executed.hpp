#pragma once
// From a scenario to a measured report: weights, prompt, runs.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/scenario/placement.hpp"
#include "core/text/toml_reader.hpp"
#include "engine/runtime/executor.hpp"
#include "engine/runtime/sampler.hpp"
#include "report/report.hpp"
#include "report/trace.hpp"

namespace rigcast::cli {

enum class Device { kCpu, kCuda };

struct ExecuteOptions {
  Device device = Device::kCpu;
  std::optional<Bytes> vram_limit;  // of the engine; absent: what the GPU has
  std::optional<Bytes> ram_limit;   // of the engine; absent: what the host has
  bool synthetic = false;
  std::optional<std::string> prompt;  // absent: random tokens, as many as the workload's
  bool fill_context = false;          // with the answer to `prompt`: no number was asked for
  int repeat = 3;
  std::uint64_t seed = 1;
  engine::Sampling sampling;
  bool text_to_stderr = false;
  bool trace = false;
  std::optional<TokenCount> traced_tokens;     // of the traced run; absent: all
  std::optional<BytesPerSecond> vram_ceiling;  // as measured before; absent: it is measured
};

struct Executed {
  Report report;
  std::vector<TraceEvent> events;
  std::optional<std::string> busy;        // what else ran on the machine's cores, if it mattered
  std::optional<double> traced_slowdown;  // share by which the traced run took longer; absent:
                                          // there are no events
};

/// The scenario with the engine as runtime and, if the document names no rig, this machine: its
/// cores and memory, and its own name in reports.
Result<Scenario> make_scenario_here(TomlDocument& document, const Catalogue& catalogue,
                                    Device device = Device::kCpu);

/// Why the scenario cannot be executed here, before any weight is read: what the engine has not,
/// or memory that is short (kDoesNotFit).
std::optional<Error> refuse_to_run(const Scenario& scenario, const ExecuteOptions& options);

/// Where its parts are executed here: on a GPU the layers that were asked for, or that fit.
Result<Placement> placement_here(const Scenario& scenario, const ExecuteOptions& options);

/// A warning where a run goes past the positions that the model was trained on.
std::optional<std::string> past_training(const ModelSpec& model, TokenCount positions);

/// A model that is ready to run: synthetic weights, or the scenario's file.
Result<std::unique_ptr<engine::Executor>> make_executor(const Scenario& scenario,
                                                        const ExecuteOptions& options);

/// Times the scenario: from the file cold and warm, where there is one, and `repeat` times
/// resident.
Result<Executed> execute(std::shared_ptr<Scenario> scenario, const ExecuteOptions& options);

}  // namespace rigcast::cli
