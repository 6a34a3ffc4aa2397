#include "validation/runs/llama_cpp/llama_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "validation/runs/llama_cpp/bench_program.hpp"
#include "validation/runs/llama_cpp/child_process.hpp"

namespace rigcast::validation {
namespace {

namespace fs = std::filesystem;
using planner::Words;

constexpr Seconds kHelpTime{30};
constexpr const char* kName = "llama-bench";
constexpr const char* kNeeded[] = {"-m", "-p", "-n", "-r", "-o"};  // by every llama-bench
constexpr const char* kInstall =
    "build llama.cpp with its tools, or name a program with --llama-bench";

Result<std::string> find_program(const std::optional<std::string>& path) {
  if (path) {
    if (is_program(*path)) return fs::absolute(*path).string();
    return bad_input(fmt::format("{} is not a program that can be run", *path), kInstall);
  }
  if (const auto found = program_on_path("llama-bench")) return *found;
  return bad_input("there is no llama-bench on $PATH", kInstall);
}

std::optional<Error> error_of(const ProcessOutput& p, const BenchOutput& output, Seconds limit) {
  std::string message = end_text(p, kName, limit);
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

// Whether it measured what `words` ask for, on a GPU where the scenario has one.
std::optional<Error> check_test(const Words& words, const LlamaBenchRun& run, bool needs_gpu) {
  const auto asked = [&](const char* flag) {
    const auto found = std::ranges::find(words, flag);
    return found == words.end() ? 0 : TokenCount(std::stoll(*(found + 1)));
  };
  const BenchTest& t = run.tests.front();
  if (run.tests.size() != 1 || t.prompt != asked("-p") || t.output != asked("-n") ||
      t.depth != asked("-d"))
    return Error{ErrorKind::kMachine, fmt::format("llama-bench measured another test than {}",
                                                  planner::shell_text(words))};
  if (needs_gpu && t.gpu.empty())
    return Error{ErrorKind::kMachine,
                 fmt::format("llama-bench found no GPU: it computed with {}", t.backends),
                 "a llama.cpp that is built for this GPU"};
  return std::nullopt;
}

}  // namespace

Result<LlamaBench> find_llama_bench(const std::optional<std::string>& path) {
  const auto program = find_program(path);
  if (!program) return program.error();
  const auto help = run_process({*program, "--help"}, {kHelpTime, 1 << 20, 1 << 16});
  if (!help) return bad_input(help.error().message, kInstall);
  LlamaBench bench{*program, flags_in(help->out + "\n" + help->err)};
  const bool has_all =
      std::ranges::all_of(kNeeded, [&](const char* flag) { return bench.flags.contains(flag); });
  if (has_all && help->succeeded()) return bench;
  const std::string end = end_text(*help, kName, kHelpTime);
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

Result<LlamaBenchMeasurement> measure_with(const LlamaBench& bench, const Report& forecast,
                                           const MeasureLimits& limits) {
  const Scenario& s = *forecast.scenario;
  if (!planner::is_llama_cpp(s.runtime, s.kv.policy) || s.runtime.id != "llama.cpp")
    return bad_input(
        fmt::format("llama-bench runs llama.cpp with the KV cache in VRAM or RAM, the "
                    "scenario {} with {}",
                    s.runtime.name, name(s.kv.policy)));
  if (!s.model_file) return bad_input("llama-bench needs a model file", "a GGUF file as --model");
  std::array<Words, 2> commands;
  const auto made = planner::llama_bench_commands(forecast);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    auto words = in_flags_of(bench, made.at(i));
    if (!words) return words.error();
    commands[i] = *std::move(words);
    // With no layer on it, a GPU would still compute the prompts.
    if (s.rig.gpus.empty() && bench.flags.contains("-dev"))
      commands[i].insert(commands[i].end(), {"-dev", "none"});
  }
  const bool needs_gpu = !s.rig.gpus.empty() && forecast.placement.gpu_layers > 0;
  const auto measure = [&](const Words& words) {
    LlamaBenchRun run = run_llama_bench(bench, words, limits.time);
    if (!run.error) run.error = check_test(words, run, needs_gpu);
    return run;
  };
  LlamaBenchMeasurement out;
  out.prefill = measure(commands[0]);
  if (out.prefill.error && out.prefill.error->kind == ErrorKind::kDoesNotFit)
    out.decode.error = out.prefill.error;
  else
    out.decode = measure(commands[1]);
  return out;
}

}  // namespace rigcast::validation
