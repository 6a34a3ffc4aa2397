#pragma once
// What to type to run a scenario with other programs.

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/scenario/placement.hpp"
#include "core/scenario/scenario.hpp"

namespace rigcast::planner {

/// llama.cpp or a fork of it runs the scenario, with a policy that its flags can say.
bool is_llama_cpp(const Scenario& scenario);

/// Words of a command line, the program first.
using Words = std::vector<std::string>;

/// llama-server with the scenario's placement and settings.
Words llama_server_command(const Scenario& scenario, const Placement& placement);
/// llama-bench for the prompt and for the output: two, since it counts an output from the depth
/// that it is given, and the output comes after the prompt.
std::vector<Words> llama_bench_commands(const Scenario& scenario, const Placement& placement);

/// What of the scenario Ollama cannot be told; nullopt: nothing.
std::optional<Error> check_ollama(const Scenario& scenario);
/// A Modelfile, with the environment that the server needs as comments. Ollama splits layers over
/// GPUs by itself: a split of one's own cannot be said.
std::string ollama_modelfile(const Scenario& scenario, const Placement& placement);

/// In one line, quoted for a shell where a word needs it.
std::string shell_text(const Words& words);

}  // namespace rigcast::planner
