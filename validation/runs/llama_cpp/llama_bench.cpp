#include "validation/runs/llama_cpp/llama_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "validation/runs/llama_cpp/bench_program.hpp"
#include "validation/runs/llama_cpp/joined_commands.hpp"

namespace rigcast::validation {
namespace {

using planner::Words;

constexpr Seconds kHelpTime{30};
constexpr const char* kNeeded[] = {"-m", "-p", "-n", "-r", "-o"};  // by every llama-bench
constexpr const char* kInstall =
    "build llama.cpp with its tools, or name a program with --llama-bench";

std::optional<Error> error_of(const ProcessOutput& p, const BenchOutput& output, Seconds limit) {
  std::string message = end_text("llama-bench", p, limit);
  if (message.empty() && output.error) return output.error;
  if (message.empty() && output.tests.empty()) message = "llama-bench printed no result";
  if (message.empty()) return std::nullopt;
  return process_error(p, std::move(message));
}

// A flag of a command and the name that an older release had for it.
struct Older {
  const char* flag;
  const char* value;  // nullptr: any
  const char* older;
  const char* older_value;  // nullptr: the same
};
constexpr Older kOlder[] = {{"-lm", "none", "-mmp", "0"},
                            {"-lm", "mmap", "-mmp", "1"},
                            {"--n-cpu-moe", nullptr, "-ncmoe", nullptr}};

Error other_test(const Words& words) {
  return {ErrorKind::kMachine,
          fmt::format("llama-bench measured another test than {}", planner::shell_text(words))};
}

// Whether it measured what `words` ask for, on a GPU where the scenario has one.
std::optional<Error> check_test(const Words& words, const LlamaBenchRun& run, bool needs_gpu) {
  const auto asked = [&](const char* flag) {
    const auto found = std::ranges::find(words, flag);
    return found == words.end() ? 0 : TokenCount(std::stoll(*(found + 1)));
  };
  const BenchTest& t = run.tests.front();
  // Settings that it tells are those that it was asked for.
  const auto differs = [&](const char* flag, const std::string& told) {
    const auto found = std::ranges::find(words, flag);
    return found != words.end() && !told.empty() && told != "0" && told != *(found + 1);
  };
  if (run.tests.size() != 1 || t.prompt != asked("-p") || t.output != asked("-n") ||
      t.depth != asked("-d") || differs("-t", fmt::format("{}", t.threads)) ||
      differs("-ctk", t.key_type))
    return other_test(words);
  if (needs_gpu && t.gpu.empty())
    return Error{ErrorKind::kMachine,
                 fmt::format("llama-bench found no GPU: it computed with {}", t.backends),
                 "a llama.cpp that is built for this GPU"};
  return std::nullopt;
}

// A command, and whether its tests need a GPU.
struct Test {
  Words command;
  bool needs_gpu = false;
};

void repeat_at_most(int repetitions, Words& words) {
  const auto found = std::ranges::find(words, "-r");
  if (found == words.end())
    words.insert(words.end(), {"-r", fmt::format("{}", repetitions)});
  else if (std::stoi(*(found + 1)) > repetitions)
    *(found + 1) = fmt::format("{}", repetitions);
}

// Of the prefill and the decode.
Result<std::array<Test, 2>> tests_of(const LlamaBench& bench, const Report& forecast,
                                     int repetitions) {
  const Scenario& s = *forecast.scenario;
  if (!planner::is_llama_cpp(s.runtime, s.kv.policy) || s.runtime.id != "llama.cpp")
    return bad_input(
        fmt::format("llama-bench runs llama.cpp with the KV cache in VRAM or RAM, the "
                    "scenario {} with {}",
                    s.runtime.name, name(s.kv.policy)));
  if (!s.model_file) return bad_input("llama-bench needs a model file", "a GGUF file as --model");
  std::array<Test, 2> tests;
  const auto made = planner::llama_bench_commands(forecast);
  for (std::size_t i = 0; i < tests.size(); ++i) {
    auto words = in_flags_of(bench, made.at(i));
    if (!words) return words.error();
    repeat_at_most(repetitions, *words);
    // With no layer on it, a GPU would still compute the prompts.
    if (s.rig.gpus.empty() && bench.flags.contains("-dev"))
      words->insert(words->end(), {"-dev", "none"});
    tests[i] = {*std::move(words), !s.rig.gpus.empty() && forecast.placement.gpu_layers > 0};
  }
  return tests;
}

// As many of the tests from the first on as one command measures.
Words joined_from(std::span<const Test> tests, std::size_t& count) {
  std::vector<Words> commands;
  Words out;
  for (const Test& test : tests) {
    commands.push_back(test.command);
    auto next = joined(commands);
    if (!next) break;
    out = *std::move(next);
    count = commands.size();
  }
  return out;
}

// What a process of `count` tests came to for the test at `index`.
LlamaBenchRun run_of(const LlamaBenchRun& all, std::size_t index, std::size_t count,
                     const Test& test) {
  LlamaBenchRun out = all;
  if (index >= all.tests.size()) return out;  // it ended in this test
  if (count > 1) {
    out.tests = {all.tests[index]};
    out.out = all.tests[index].line + "\n";
  }
  if (index > 0) out.tests.front().load.reset();
  if (index + 1 < count) out.error.reset();  // which came later
  if (!out.error) out.error = check_test(test.command, out, test.needs_gpu);
  return out;
}

// A run with one test for each. Tests after one that ended its process are begun anew, but not
// after the time limit, of which each test has its share.
std::vector<LlamaBenchRun> run_tests(const LlamaBench& bench, std::span<const Test> tests,
                                     Seconds time_limit) {
  std::vector<LlamaBenchRun> out;
  while (out.size() < tests.size()) {
    const std::span<const Test> rest = tests.subspan(out.size());
    std::size_t count = 0;
    const Words command = joined_from(rest, count);
    LlamaBenchRun all = run_llama_bench(bench, command, time_limit * double(count));
    all.first_process = out.empty();
    if (!all.error && all.tests.size() != count) {
      all.error = other_test(command);
      all.tests.clear();
    }
    // What is too slow would most likely be so again: the time is not waited for once more.
    const bool is_late = all.error && all.elapsed >= time_limit * double(count);
    const std::size_t over =
        is_late ? count : std::clamp<std::size_t>(all.tests.size() + 1, 1, count);
    for (std::size_t i = 0; i < over; ++i) out.push_back(run_of(all, i, count, rest[i]));
  }
  return out;
}

}  // namespace

double LlamaBenchMeasurement::spread() const {
  double most = 0;
  for (const LlamaBenchRun* run : {&prefill, &decode})
    for (const BenchTest& test : run->tests) {
      const auto [lo, hi] = std::ranges::minmax(test.tokens_per_s);
      most = std::max(most, (hi - lo) / test.median());
    }
  return most;
}

Result<LlamaBench> find_llama_bench(const std::optional<std::string>& path) {
  const auto program = find_program("llama-bench", path, kInstall);
  if (!program) return program.error();
  const auto help = run_process({*program, "--help"}, {kHelpTime, 1 << 20, 1 << 16});
  if (!help) return bad_input(help.error().message, kInstall);
  LlamaBench bench{*program, flags_in(help->out + "\n" + help->err)};
  const bool has_all =
      std::ranges::all_of(kNeeded, [&](const char* flag) { return bench.flags.contains(flag); });
  if (has_all && help->succeeded()) return bench;
  const std::string end = end_text("llama-bench", *help, kHelpTime);
  return bad_input(fmt::format("{} is no llama-bench: {}", *program,
                               end.empty() ? "its --help names other flags" : last_lines(end)),
                   kInstall);
}

Result<Words> in_flags_of(const LlamaBench& bench, const Words& words) {
  Words out{bench.program};
  for (std::size_t i = 1; i + 1 < words.size(); i += 2) {  // every flag has a value
    std::string flag = words[i], value = words[i + 1];
    for (const Older& o : kOlder) {
      if (bench.flags.contains(flag)) break;
      if (flag != o.flag || (o.value && value != o.value)) continue;
      flag = o.older;
      if (o.older_value) value = o.older_value;
    }
    if (!bench.flags.contains(flag))
      return bad_input(fmt::format("{} has no flag {}", bench.program, words[i]),
                       "a newer llama.cpp has it");
    out.insert(out.end(), {flag, value});
  }
  return out;
}

LlamaBenchRun run_llama_bench(const LlamaBench& bench, const Words& words, Seconds time_limit) {
  LlamaBenchRun run;
  run.command = words;
  run.command.front() = bench.program;
  run.command.insert(run.command.end(), {"-o", "jsonl"});
  ProcessLimits limits;
  limits.time = time_limit;
  auto process = run_process(run.command, limits);
  if (!process) {
    run.error = process.error();
    return run;
  }
  BenchOutput output = parse_bench_output(process->out);
  run.error = error_of(*process, output, time_limit);
  run.out = std::move(process->out);
  run.err = std::move(process->err);
  run.elapsed = process->elapsed;
  run.build = std::move(output.build);
  run.tests = std::move(output.tests);
  return run;
}

Result<std::vector<LlamaBenchMeasurement>> measure_with(const LlamaBench& bench,
                                                        std::span<const Report* const> forecasts,
                                                        const MeasureLimits& limits) {
  std::vector<Test> prefills, decodes;
  for (const Report* forecast : forecasts) {
    auto tests = tests_of(bench, *forecast, limits.repetitions);
    if (!tests) return tests.error();
    prefills.push_back(std::move((*tests)[0]));
    decodes.push_back(std::move((*tests)[1]));
  }
  std::vector<LlamaBenchMeasurement> out(forecasts.size());
  std::vector<Test> rest;
  std::vector<LlamaBenchRun> measured = run_tests(bench, prefills, limits.time);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].prefill = std::move(measured[i]);
    const auto& error = out[i].prefill.error;
    if (error && error->kind == ErrorKind::kDoesNotFit)
      out[i].decode.error = error;
    else
      rest.push_back(std::move(decodes[i]));
  }
  measured = run_tests(bench, rest, limits.time);
  for (LlamaBenchRun& run : measured) run.first_process = false;
  auto next = measured.begin();
  for (LlamaBenchMeasurement& one : out)
    if (!one.decode.error) one.decode = std::move(*next++);
  return out;
}

Result<LlamaBenchMeasurement> measure_with(const LlamaBench& bench, const Report& forecast,
                                           const MeasureLimits& limits) {
  const Report* only[] = {&forecast};
  auto measured = measure_with(bench, only, limits);
  if (!measured) return measured.error();
  return std::move(measured->front());
}

}  // namespace rigcast::validation
