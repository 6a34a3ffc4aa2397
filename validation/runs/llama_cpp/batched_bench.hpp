#pragma once
// Measures several sequences at once with llama.cpp's own llama-batched-bench.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/scenario/placement.hpp"
#include "planner/commands.hpp"
#include "validation/runs/llama_cpp/batched_output.hpp"

namespace rigcast::validation {

/// A llama-batched-bench, and the flags that its --help names.
struct BatchedBench {
  std::string program;  // a path
  std::set<std::string> flags;
};

/// The program at `path`, or the one beside `llama_bench`, or the first of $PATH. Asks it for
/// --help. Errors: kBadInput where there is none, it cannot be run, its help is not
/// llama-batched-bench's, or it is of a release that prints no JSON.
Result<BatchedBench> find_batched_bench(const std::optional<std::string>& path,
                                        const std::string& llama_bench);

/// One run of llama-batched-bench, whatever came of it.
struct BatchedRun {
  planner::Words command;  // as it was run
  std::string out, err;    // as it wrote them; of `err` the last 64 KiB
  Seconds elapsed;
  std::vector<BatchedTest> tests;  // one for each repetition; also those before an error
  std::optional<Error> error;  // kDoesNotFit: out of memory; kMachine: crash, time limit, no result

  /// Medians over the repetitions, of all sequences together. There has to be one.
  double prompt_tokens_per_s() const;
  double output_tokens_per_s() const;
};

struct BatchedLimits {
  Seconds time{600};  // of all repetitions; past it the program's processes are killed
  int repetitions = 3;
};

/// Runs the scenario for so many users at once, each with a sequence of its own, and checks that
/// the tests are those that were asked for, and, where the program tells it, that there was a GPU
/// where layers are to be on one. Errors, before anything runs: the scenario has no model file, its
/// runtime is not llama.cpp, or the program lacks a flag. What the run came to is in it.
Result<BatchedRun> measure_batched(const BatchedBench& bench, const Scenario& scenario,
                                   const Placement& placement, int users,
                                   const BatchedLimits& limits);

}  // namespace rigcast::validation
