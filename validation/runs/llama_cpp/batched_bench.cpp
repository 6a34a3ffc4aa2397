#include "validation/runs/llama_cpp/batched_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "core/base/quantile.hpp"
#include "validation/runs/llama_cpp/bench_program.hpp"

namespace rigcast::validation {
namespace {

namespace fs = std::filesystem;
using planner::Words;

constexpr const char* kName = "llama-batched-bench";
constexpr Seconds kHelpTime{30};
constexpr const char* kNeeded[] = {"-m", "-c", "-npp", "-ntg", "-npl"};
constexpr const char* kFormat = "--output-format";
constexpr const char* kInstall = "build llama.cpp with its tools, which have it";

Result<std::string> program_at(const std::optional<std::string>& path,
                               const std::string& llama_bench) {
  if (path) return find_program(kName, path, kInstall);
  const fs::path beside = fs::path(llama_bench).parent_path() / kName;
  if (const auto found = find_program(kName, beside.string(), kInstall)) return *found;
  if (const auto found = find_program(kName, {}, kInstall)) return *found;
  return bad_input(fmt::format("there is no {} beside {} and none on $PATH", kName, llama_bench),
                   kInstall);
}

bool is_flag(const std::string& word) {
  const std::size_t name = word.find_first_not_of('-');
  return (name == 1 || name == 2) && std::isalpha(static_cast<unsigned char>(word[name])) != 0;
}

// The command in flags that the program has: a release without -lm has --no-mmap.
Result<Words> in_flags_of(const BatchedBench& bench, Words words) {
  words.front() = bench.program;
  const auto mode = std::ranges::find(words, "-lm");
  if (mode != words.end() && *(mode + 1) == "none" && !bench.flags.contains("-lm")) {
    *mode = "--no-mmap";
    words.erase(mode + 1);
  }
  for (const std::string& word : words)
    if (is_flag(word) && !bench.flags.contains(word))
      return bad_input(fmt::format("{} has no flag {}", bench.program, word),
                       "a newer llama.cpp has it");
  return words;
}

std::optional<Error> error_of(const ProcessOutput& p, const BatchedOutput& output, Seconds limit) {
  std::string message = end_text(kName, p, limit);
  if (message.empty() && output.error) return output.error;
  if (message.empty() && output.tests.empty()) message = fmt::format("{} printed no result", kName);
  if (message.empty()) return std::nullopt;
  return process_error(p, std::move(message));
}

// Whether every repetition is of that workload, on a GPU where the scenario has one.
std::optional<Error> check_tests(const BatchedRun& run, const Workload& w, int users,
                                 int repetitions, bool needs_gpu) {
  const bool same = std::ranges::all_of(run.tests, [&](const BatchedTest& t) {
    return t.prompt == w.depth + w.prompt_tokens && t.output == w.output_tokens &&
           t.sequences == users && !t.prompt_is_shared;
  });
  if (!same || int(run.tests.size()) != repetitions)
    return Error{ErrorKind::kMachine, fmt::format("{} measured other tests than {}", kName,
                                                  planner::shell_text(run.command))};
  if (needs_gpu && run.tests.front().gpu == "")
    return Error{ErrorKind::kMachine, fmt::format("{} found no GPU", kName),
                 "a llama.cpp that is built for this GPU"};
  return std::nullopt;
}

double median_of(const std::vector<BatchedTest>& tests, double BatchedTest::*speed) {
  std::vector<double> values;
  for (const BatchedTest& t : tests) values.push_back(t.*speed);
  return median(values);
}

BatchedRun run_batched(const Words& command, Seconds limit) {
  BatchedRun run;
  run.command = command;
  ProcessLimits limits;
  limits.time = limit;
  auto process = run_process(command, limits);
  if (!process) {
    run.error = process.error();
    return run;
  }
  BatchedOutput output = parse_batched_output(process->out);
  run.error = error_of(*process, output, limit);
  run.out = std::move(process->out);
  run.err = std::move(process->err);
  run.elapsed = process->elapsed;
  run.tests = std::move(output.tests);
  return run;
}

}  // namespace

double BatchedRun::prompt_tokens_per_s() const {
  return median_of(tests, &BatchedTest::prompt_tokens_per_s);
}
double BatchedRun::output_tokens_per_s() const {
  return median_of(tests, &BatchedTest::output_tokens_per_s);
}

Result<BatchedBench> find_batched_bench(const std::optional<std::string>& path,
                                        const std::string& llama_bench) {
  const auto program = program_at(path, llama_bench);
  if (!program) return program.error();
  const auto help = run_process({*program, "--help"}, {kHelpTime, 1 << 20, 1 << 16});
  if (!help) return bad_input(help.error().message, kInstall);
  BatchedBench bench{*program, flags_in(help->out + "\n" + help->err)};
  const bool is_one =
      std::ranges::all_of(kNeeded, [&](const char* flag) { return bench.flags.contains(flag); });
  if (!is_one || !help->succeeded()) {
    const std::string end = end_text(kName, *help, kHelpTime);
    return bad_input(fmt::format("{} is no {}: {}", *program, kName,
                                 end.empty() ? "its --help names other flags" : last_lines(end)),
                     kInstall);
  }
  if (bench.flags.contains(kFormat)) return bench;
  return bad_input(fmt::format("{} is too old: it has no {} jsonl", *program, kFormat),
                   "a newer llama.cpp has it");
}

Result<BatchedRun> measure_batched(const BatchedBench& bench, const Scenario& s,
                                   const Placement& placement, int users,
                                   const BatchedLimits& limits) {
  if (!planner::is_llama_cpp(s.runtime, s.kv.policy) || s.runtime.id != "llama.cpp")
    return bad_input(
        fmt::format("{} runs llama.cpp with the KV cache in VRAM or RAM, the scenario "
                    "{} with {}",
                    kName, s.runtime.name, name(s.kv.policy)));
  if (!s.model_file)
    return bad_input(fmt::format("{} needs a model file", kName), "a GGUF file as --model");
  Words asked = planner::llama_batched_bench_command(s, placement, users, limits.repetitions);
  asked.insert(asked.end(), {kFormat, "jsonl"});
  // With no layer on it, a GPU would still compute the prompts.
  if (s.rig.gpus.empty() && bench.flags.contains("-dev"))
    asked.insert(asked.end(), {"-dev", "none"});
  const auto words = in_flags_of(bench, std::move(asked));
  if (!words) return words.error();
  BatchedRun run = run_batched(*words, limits.time);
  const bool needs_gpu = !s.rig.gpus.empty() && placement.gpu_layers > 0;
  if (!run.error) run.error = check_tests(run, s.workload, users, limits.repetitions, needs_gpu);
  return run;
}

}  // namespace rigcast::validation
