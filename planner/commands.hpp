#pragma once
// What to type to run a scenario with other programs.

#include <string>
#include <vector>

#include "core/placement.hpp"
#include "core/scenario.hpp"

namespace rigcast::planner {

/// llama.cpp or a fork of it runs the scenario, with a policy that its flags can say.
bool is_llama_cpp(const Scenario& scenario);

/// Words of a command line, the program first.
using Words = std::vector<std::string>;

/// llama-server and llama-bench with the scenario's placement and settings.
Words llama_server_command(const Scenario& scenario, const Placement& placement);
Words llama_bench_command(const Scenario& scenario, const Placement& placement);

/// A Modelfile, with the environment that it needs as comments. Ollama places layers and splits
/// them over GPUs by itself: experts in RAM and a split of one's own cannot be said.
std::string ollama_modelfile(const Scenario& scenario, const Placement& placement);

/// In one line, quoted for a shell where a word needs it.
std::string shell_text(const Words& words);

}  // namespace rigcast::planner
