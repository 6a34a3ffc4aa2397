#pragma once
// Processes that answer one question each: a question that fails, or takes too much, costs one
// answer. They are forked from a process that has one thread and has read what all of them need.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast::cli {

/// What a question is: the arguments of the program.
using Words = std::vector<std::string>;

struct WorkerTask {
  /// Once, before the first question: reads what all of them need.
  std::function<void()> prepare;
  /// In a process of its own: prints the answer to standard output, and gives the exit code.
  std::function<int(const Words&)> answer;
};

/// An answer ends with a byte that is the exit code; one without it was cut short.
inline constexpr char kLastExitCode = 3;
/// Before an answer, lines that begin with this byte say how far it is.
inline constexpr char kProgressMark = '\x1e';

class Workers {
 public:
  /// Requires a process without other threads. Errors: kMachine.
  static Result<Workers> start(const WorkerTask& task);
  ~Workers();
  Workers(Workers&&) noexcept;
  Workers& operator=(Workers&&) = delete;

  /// Has a new process answer, and gives the socket that the answer comes from, up to its end. The
  /// process ends when the socket is closed. -1: there is no process, or no descriptor.
  int ask(const Words& question) const;

 private:
  explicit Workers(int control, int process) : control_(control), process_(process) {}

  int control_, process_;
};

}  // namespace rigcast::cli
