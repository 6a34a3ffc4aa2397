#pragma once
// Finds another program, runs it, keeps what it writes, whatever it does, and says how it ended.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"

namespace rigcast::validation {

/// The program at `path`, or the first of that name on $PATH, as an absolute path. Errors:
/// kBadInput with `hint` where there is none that can be run.
Result<std::string> find_program(const std::string& name, const std::optional<std::string>& path,
                                 const std::string& hint);

struct ProcessLimits {
  Seconds time{600};
  std::size_t out_bytes = 16 << 20;  // of standard output; more ends the process
  std::size_t err_bytes = 64 << 10;  // of standard error: the last ones are kept
};

enum class ProcessEnd { kExit, kSignal, kTimeLimit, kOutputLimit };

struct ProcessOutput {
  std::string out, err;
  ProcessEnd end = ProcessEnd::kExit;
  int code = 0;  // the exit code, or the number of the signal
  Seconds elapsed;
  bool succeeded() const { return end == ProcessEnd::kExit && code == 0; }
};

/// Runs `words`, the path of a program first, in a process group of its own, which ends with it: no
/// process of the group outlives the call. Its standard input is empty. Errors: kMachine where it
/// cannot be started, or after an interrupt.
Result<ProcessOutput> run_process(const std::vector<std::string>& words,
                                  const ProcessLimits& limits);

/// How the program `name` ended: "llama-bench was stopped after 600 s"; "" after exit code 0.
std::string end_text(const std::string& name, const ProcessOutput& process, Seconds limit);

/// The last whole lines of at most 400 bytes of what it wrote, without control characters.
std::string last_lines(const std::string& text);

/// Whether it wrote that memory did not suffice, as llama.cpp, CUDA, torch and C++ say it.
bool tells_of_memory(const std::string& text);

}  // namespace rigcast::validation
