#include "validation/runs/process/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "core/files/interrupt.hpp"

namespace rigcast::validation {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kLookMs = 100;  // for an end, an interrupt or the time limit
constexpr std::size_t kPieceBytes = 65536;
constexpr int kPipePieces = (1 << 20) / kPieceBytes;  // Linux's largest pipe without privileges

// The end of a pipe that is read; closed where there is nothing more.
class PipeEnd {
 public:
  explicit PipeEnd(int fd) : fd_(fd) { ::fcntl(fd, F_SETFL, O_NONBLOCK); }
  ~PipeEnd() { close(); }
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;

  int fd() const { return fd_; }
  // One piece at a time: the process may write faster than limits are looked at.
  void append_to(std::string& text) {
    for (char buffer[kPieceBytes]; fd_ >= 0;) {
      const ssize_t n = ::read(fd_, buffer, sizeof buffer);
      if (n > 0) text.append(buffer, std::size_t(n));
      if (n < 0 && errno == EINTR) continue;
      if (n == 0 || (n < 0 && errno != EAGAIN)) close();
      return;
    }
  }

 private:
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  int fd_;
};

// Starts it with pipes for what it writes. Returns an errno.
int start(const std::vector<std::string>& words, const int out[2], const int err[2],
          pid_t& process) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, err[1], STDERR_FILENO);
  ::posix_spawnattr_init(&how);
  ::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
  const int failed = ::posix_spawn(&process, argv[0], &files, &how, argv.data(), environ);
  ::posix_spawnattr_destroy(&how);
  ::posix_spawn_file_actions_destroy(&files);
  return failed;
}

// Not waited for yet, so that its number, which is its group's too, stays its own.
bool has_ended(pid_t process) {
  siginfo_t info{};
  return ::waitid(P_PID, id_t(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid != 0;
}

void keep_last(std::string& text, std::size_t bytes) {
  if (text.size() > 2 * bytes) text.erase(0, text.size() - bytes);
}

// Reads until the process ends or must. `interrupted_by_user`: it must because of an interrupt.
ProcessOutput watch(pid_t process, PipeEnd& out, PipeEnd& err, const ProcessLimits& limits,
                    bool& interrupted_by_user) {
  ProcessOutput result;
  const auto begin = Clock::now();
  const auto elapsed = [&] {
    return Seconds{std::chrono::duration<double>(Clock::now() - begin).count()};
  };
  for (bool over = false; !over;) {
    pollfd ends[] = {{out.fd(), POLLIN, 0}, {err.fd(), POLLIN, 0}};
    ::poll(ends, 2, kLookMs);
    over = has_ended(process);  // before the last look at what it wrote
    // All that the pipes still hold, but no more than they can: a child of it may go on writing.
    for (int i = 0; i < (over ? kPipePieces : 1); ++i) {
      out.append_to(result.out);
      err.append_to(result.err);
    }
    keep_last(result.err, limits.err_bytes);
    if (result.out.size() > limits.out_bytes) result.end = ProcessEnd::kOutputLimit;
    if (!over && elapsed().value > limits.time.value) result.end = ProcessEnd::kTimeLimit;
    interrupted_by_user = !over && interrupted();
    over = over || result.end != ProcessEnd::kExit || interrupted_by_user;
  }
  result.elapsed = elapsed();
  if (result.err.size() > limits.err_bytes)
    result.err.erase(0, result.err.size() - limits.err_bytes);
  return result;
}

bool is_program(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Result<std::string> find_program(const std::string& name, const std::optional<std::string>& path,
                                 const std::string& hint) {
  if (path) {
    if (is_program(*path)) return fs::absolute(*path).string();
    return bad_input(fmt::format("{} is not a program that can be run", *path), hint);
  }
  const char* all = std::getenv("PATH");
  std::istringstream folders(all ? all : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const fs::path file = fs::path(folder) / name; is_program(file))
      return fs::absolute(file).string();
  return bad_input(fmt::format("there is no {} on $PATH", name), hint);
}

Result<ProcessOutput> run_process(const std::vector<std::string>& words,
                                  const ProcessLimits& limits) {
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return Error{ErrorKind::kMachine, std::strerror(errno)};
  PipeEnd read_out(out[0]);
  if (::pipe2(err, O_CLOEXEC) != 0) {
    const int failed = errno;
    ::close(out[1]);
    return Error{ErrorKind::kMachine, std::strerror(failed)};
  }
  PipeEnd read_err(err[0]);
  pid_t process = -1;
  const int failed = start(words, out, err, process);
  ::close(out[1]);
  ::close(err[1]);
  if (failed != 0)
    return Error{ErrorKind::kMachine,
                 fmt::format("{} cannot be started: {}", words[0], std::strerror(failed))};
  bool interrupted_by_user = false;
  ProcessOutput result = watch(process, read_out, read_err, limits, interrupted_by_user);
  ::kill(-process, SIGKILL);
  const int status = wait_for(process);
  if (interrupted_by_user) return Error{ErrorKind::kMachine, "interrupted"};
  if (result.end == ProcessEnd::kExit && WIFSIGNALED(status)) result.end = ProcessEnd::kSignal;
  result.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

std::string end_text(const std::string& name, const ProcessOutput& p, Seconds limit) {
  switch (p.end) {
    case ProcessEnd::kTimeLimit:
      return fmt::format("{} was stopped after {:g} s", name, limit.value);
    case ProcessEnd::kOutputLimit:
      return fmt::format("{} wrote more than results: it was stopped", name);
    case ProcessEnd::kSignal:
      return fmt::format("{} was ended by signal {} ({}){}", name, p.code, ::strsignal(p.code),
                         p.code == SIGKILL ? ": is there too little memory?" : "");
    case ProcessEnd::kExit: break;
  }
  return p.code == 0 ? "" : fmt::format("{} ended with exit code {}", name, p.code);
}

std::string last_lines(const std::string& text) {
  constexpr std::size_t kShown = 400;
  std::string out = text.substr(text.size() - std::min(text.size(), kShown));
  if (text.size() > kShown)
    out.erase(0, out.find('\n') == std::string::npos ? 0 : out.find('\n') + 1);
  while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) out.pop_back();
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ' && c != '\n') c = ' ';
  return out;
}

bool tells_of_memory(const std::string& text) {
  constexpr const char* kTexts[] = {"out of memory",     "failed to allocate", "unable to allocate",
                                    "cannot allocate",   "can't allocate",     "bad_alloc",
                                    "cudamalloc failed", "insufficient memory"};
  std::string lower = text;
  for (char& c : lower) c = char(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::any_of(kTexts,
                             [&](const char* t) { return lower.find(t) != std::string::npos; });
}

}  // namespace rigcast::validation
