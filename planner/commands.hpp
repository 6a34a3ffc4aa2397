#pragma once
// Command lines that run a scenario with other programs.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/scenario/placement.hpp"
#include "core/scenario/scenario.hpp"
#include "perfmodel/context/step_context.hpp"
#include "report/report.hpp"

namespace rigcast::planner {

/// True if the runtime is llama.cpp or a fork of it, with flags that express the KV policy.
bool is_llama_cpp(const RuntimeProfile& runtime, KvPolicy policy);

/// What a command with the FFNs of a dense model in RAM needs.
inline constexpr std::string_view kFfnFlagNote =
    "--n-cpu-ffn needs llama.cpp of August 2026 or later (PR 26622)";

/// Words of a command line, the program first.
using Words = std::vector<std::string>;

/// The scenario's file of weights, or a likely name for it: "Llama-3.1-8B-Q4_K_M.gguf".
std::string gguf_file_of(const Scenario& scenario);

/// The command of llama-server with the scenario's placement and settings. Its cache of evicted
/// prompts is limited (-cram, MiB) where less RAM is left than it may take by default.
Words llama_server_command(const Scenario& scenario, const Placement& placement);
/// Why that command limits the cache of evicted prompts, in one line; empty: it does not.
std::string prompt_cache_note(const Scenario& scenario, const Placement& placement);
/// The commands of llama-bench for the prompt and for the output: two, because it counts an output
/// from the given depth, and the output follows the prompt. They take minutes: a long answer is
/// measured at its middle, and repetitions are fewer where one is slow.
std::vector<Words> llama_bench_commands(const Report& forecast);

/// The command of llama-batched-bench for `users` sequences at once, each with the scenario's depth
/// and prompt as its prompt, because the program has no depth; `repetitions` of the same test.
Words llama_batched_bench_command(const Scenario& scenario, const Placement& placement, int users,
                                  int repetitions);

/// What Ollama cannot express of the settings; nullopt: it can express all.
std::optional<Error> check_ollama(const StepContext& context);
/// A Modelfile, with the server's environment variables as comments. Ollama splits layers over GPUs
/// by itself; a given split cannot be expressed. Of a model that is partly on the GPU, a comment
/// says what num_gpu counts, which depends on Ollama's release.
std::string ollama_modelfile(const Scenario& scenario, const Placement& placement);

/// The command in one line, with shell quotes where needed.
std::string shell_text(const Words& words);

}  // namespace rigcast::planner
