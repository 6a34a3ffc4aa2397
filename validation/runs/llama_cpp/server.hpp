#pragma once
// Measures a scenario with a llama-server that already runs on this machine.

#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/text/toml_reader.hpp"
#include "report/report.hpp"
#include "validation/runs/llama_cpp/llama_bench.hpp"
#include "validation/runs/process/http_client.hpp"

namespace rigcast::validation {

/// A server, and what it tells of itself: GET /props.
struct LlamaServer {
  HttpAddress address;
  std::string model_file;           // of the server's file system; "": not told
  std::optional<BenchBuild> build;  // absent: not told
  TokenCount slot_context = 0;      // tokens that one sequence may have; 0: not told
  // Of the model that it loaded, by GET /v1/models; 0: not told.
  TokenCount vocabulary = 0;
  Bytes weights;
};

/// Asks the server at `url`, whose host has to be this machine: the forecast is of it. Errors:
/// kBadInput where it is no such address; kMachine where nobody listens, the server still loads, or
/// it is no llama-server.
Result<LlamaServer> find_llama_server(const std::string& url);

/// Sets what the server tells of itself where the scenario does not state it: runtime, model file,
/// build. What is taken of the machine's memory counts as taken by the server. Errors: the path of
/// its model is relative to a folder that it does not tell.
std::optional<Error> state_server(const LlamaServer& server, TomlDocument& scenario);

/// Prefill and decode of a scenario by POST /completion, on random tokens that no cache holds but
/// for the scenario's depth, timed by when the tokens come: the first one belongs to the prompt.
/// Placement, KV types and ubatch are whatever the server was started with. Errors, before anything
/// is timed: the scenario's runtime is not llama.cpp, its model is another one, a slot is too short
/// for it, or the server answers others. What the requests came to is in the runs.
Result<LlamaBenchMeasurement> measure_with(const LlamaServer& server, const Report& forecast,
                                           const MeasureLimits& limits);

}  // namespace rigcast::validation
