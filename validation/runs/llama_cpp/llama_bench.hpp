#pragma once
// Measures a scenario with llama.cpp's own llama-bench.
//
//   const auto bench = find_llama_bench(path);  // once: where it is, and which flags it has
//   const auto measured = measure_with(*bench, forecast, {});  // what `plan --emit` prints
//   measured->prefill.tests.front().median();

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "planner/commands.hpp"
#include "report/report.hpp"
#include "validation/runs/llama_cpp/bench_output.hpp"

namespace rigcast::validation {

/// A llama-bench, and the flags that its --help names.
struct LlamaBench {
  std::string program;  // a path
  std::set<std::string> flags;
};

/// The program at `path` (of --llama-bench), or the first llama-bench of $PATH. Asks it for --help.
/// Errors: kBadInput where there is none, it cannot be run or its help is not llama-bench's.
Result<LlamaBench> find_llama_bench(const std::optional<std::string>& path);

/// The command in flags that this llama-bench has: an older one has `-mmp 0` for `-lm none`.
/// `words`: as planner::llama_bench_commands makes them. Errors: kBadInput with a flag that it
/// lacks.
Result<planner::Words> in_flags_of(const LlamaBench& bench, const planner::Words& words);

/// One run of llama-bench, whatever came of it.
struct LlamaBenchRun {
  planner::Words command;      // as it was run
  std::string out, err;        // as it wrote them; of `err` the last 64 KiB
  Seconds elapsed;             // of all of it
  bool first_process = false;  // of a measurement: no other one has loaded the model before it
  std::optional<BenchBuild> build;
  std::vector<BenchTest> tests;  // also those before an error
  std::optional<Error> error;  // kDoesNotFit: out of memory; kMachine: crash, time limit, no result
};

/// Runs `words` with `-o jsonl`; past the limit its processes are killed. An error in it says what
/// the program wrote last.
LlamaBenchRun run_llama_bench(const LlamaBench& bench, const planner::Words& words,
                              Seconds time_limit);

struct MeasureLimits {
  Seconds time{600};    // of each test of llama-bench, of which a scenario has two
  int repetitions = 5;  // of each test, or fewer where the command that `plan` prints has fewer
};

/// Prefill and decode of a scenario. Each has exactly one test where it has no error.
struct LlamaBenchMeasurement {
  LlamaBenchRun prefill, decode;

  /// Of the repetitions of either: the largest speed less the smallest, over the median.
  double spread() const;
};

/// Runs the two commands that planner::llama_bench_commands makes of each forecast, and checks that
/// the tests are those that were asked for, and that there was a GPU where layers are to be on one.
/// Tests whose commands differ in one flag are of one process, which loads the model once: `load`
/// is of the first of them alone.
/// Errors, before anything runs: a scenario has no model file, its runtime is not llama.cpp, or
/// llama-bench lacks a flag. What a run came to is in it; a decode is not begun after a prefill
/// that did not fit.
Result<std::vector<LlamaBenchMeasurement>> measure_with(const LlamaBench& bench,
                                                        std::span<const Report* const> forecasts,
                                                        const MeasureLimits& limits);
Result<LlamaBenchMeasurement> measure_with(const LlamaBench& bench, const Report& forecast,
                                           const MeasureLimits& limits);

}  // namespace rigcast::validation
