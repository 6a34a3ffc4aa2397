#pragma once
// Runs the real program and keeps its output.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"

namespace rigcast::cli_test {

namespace fs = std::filesystem;

using test::Folder;
using test::read;

struct Outcome {
  int exit = -1;  // 128 + n: ended by signal n
  std::string out;
  std::string error;
  // The time since the signal was sent.
  double seconds_left = 0, cpu_seconds_left = 0;
  double seconds = 0, cpu_seconds = 0;  // of all of it
};

struct How {
  std::map<std::string, std::optional<std::string>> environment{};  // nullopt: unset
  std::string folder{};                                             // to run in
  std::string standard_output{};                                    // a file to write to
  std::string standard_input = "/dev/null";
  std::chrono::milliseconds interrupt_after{};  // 0: never
  std::function<bool()> interrupt_once{};       // instead: as soon as this holds
  std::vector<int> signals = {SIGINT};          // by which, one right after the other
  bool leader_alone = false;               // only the first process gets them, not its children
  std::chrono::milliseconds time_limit{};  // 0: none; past it the program is killed
  std::vector<int> ignored{};              // signals that it is started without
  rlim_t max_file = RLIM_INFINITY;         // bytes of a file that it may write
};

/// Processor time in seconds of all threads of a process that has not been waited for.
inline double cpu_seconds(pid_t process) {
  clockid_t clock{};
  timespec now{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &now) != 0) return 0;
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

inline bool has_ended(pid_t process) {
  siginfo_t info{};
  return waitid(P_PID, id_t(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/// For use by several threads, in which Catch's macros are not.
inline void check_system(bool done, const char* what) {
  if (!done) throw std::runtime_error(what);
}

inline Outcome run(const std::vector<std::string>& arguments, const How& how = {}) {
  const Folder place;
  const std::string out = how.standard_output.empty() ? place / "out" : how.standard_output;
  const std::string error = place / "error";
  std::vector<std::string> words = {test::program()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t child = fork();
  check_system(child >= 0, "no process");
  if (child == 0) {
    setpgid(0, 0);
    const int in_file = open(how.standard_input.c_str(), O_RDONLY | O_NONBLOCK);
    if (in_file < 0 || dup2(in_file, 0) < 0) _exit(126);
    const int out_file = open(out.c_str(), O_WRONLY | O_CREAT, 0600);
    const int error_file = open(error.c_str(), O_WRONLY | O_CREAT, 0600);
    if (out_file < 0 || error_file < 0 || dup2(out_file, 1) < 0 || dup2(error_file, 2) < 0)
      _exit(126);
    setenv("XDG_DATA_HOME", (place / "own").c_str(), 1);  // not the developer's own parts
    for (const auto& [name, value] : how.environment) {
      if (value)
        setenv(name.c_str(), value->c_str(), 1);
      else
        unsetenv(name.c_str());
    }
    for (const int signal : how.ignored) std::signal(signal, SIG_IGN);
    const rlimit file_size{how.max_file, how.max_file};
    if (setrlimit(RLIMIT_FSIZE, &file_size) != 0) _exit(126);
    if (!how.folder.empty() && chdir(how.folder.c_str()) != 0) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  Outcome outcome;
  int status = 0;
  const auto begin = std::chrono::steady_clock::now();
  if (how.interrupt_after.count() > 0 || how.interrupt_once) {
    std::this_thread::sleep_for(how.interrupt_after);
    while (how.interrupt_once && !how.interrupt_once() && !has_ended(child))
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const auto then = std::chrono::steady_clock::now();
    const double cpu_then = cpu_seconds(child);
    for (const int signal : how.signals) {
      kill(how.leader_alone ? child : -child, signal);  // as a terminal does: to all processes
      std::this_thread::sleep_for(std::chrono::milliseconds(signal == how.signals.back() ? 0 : 5));
    }
    siginfo_t info{};
    check_system(waitid(P_PID, id_t(child), &info, WEXITED | WNOWAIT) == 0, "no end");
    outcome.cpu_seconds_left = cpu_seconds(child) - cpu_then;
    outcome.seconds_left =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
  }
  while (how.time_limit.count() > 0 && !has_ended(child)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (std::chrono::steady_clock::now() - begin > how.time_limit) kill(-child, SIGKILL);
  }
  rusage used{};
  check_system(wait4(child, &status, 0, &used) == child, "no end");
  const auto seconds_of = [](const timeval& t) {
    return double(t.tv_sec) + 1e-6 * double(t.tv_usec);
  };
  outcome.cpu_seconds = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  outcome.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (how.standard_output.empty()) outcome.out = read(out);
  outcome.error = read(error);
  return outcome;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A forecast that is quick to make.
inline std::vector<std::string> quick(const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"simulate",     "--gpu",     "rtx-3060-12gb", "--model",
                                    "llama-3.2-1b", "--context", "2048",          "--no-advice"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Checks that the program refuses its arguments: exit code 2, all the parts in its message, and
/// nothing on standard output but the error as JSON where that is asked for.
inline void check_refused(const std::vector<std::string>& words,
                          const std::vector<std::string>& parts) {
  const Outcome o = run(words);
  INFO("stdout: " << o.out << "\nstderr: " << o.error);
  CHECK(o.exit == 2);
  const bool wants_json = std::find(words.begin(), words.end(), "json") != words.end();
  CHECK((wants_json ? contains(o.out, "\"rigcast.error/1\"") : o.out.empty()));
  CHECK(o.error.rfind("rigcast: ", 0) == 0);
  for (const std::string& part : parts) CHECK(contains(o.error, part));
}

}  // namespace rigcast::cli_test
