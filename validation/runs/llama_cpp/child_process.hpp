#pragma once
// Runs another program and keeps what it writes, whatever it does.

#include <cstddef>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"

namespace rigcast::validation {

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

}  // namespace rigcast::validation
