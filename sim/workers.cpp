#include "sim/workers.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast::sim {
namespace {

constexpr int kLookMs = 200;  // for a request to stop, while no piece ends
constexpr int kFailed = 3;    // exit code of a worker whose text says why

class Worker {
 public:
  Worker(std::int64_t piece, const Pieces& how) : piece_(piece) {
    int ends[2];
    if (pipe(ends) != 0) throw MachineError(fmt::format("no pipe: {}", std::strerror(errno)));
    process_ = fork();
    if (process_ < 0) {
      close(ends[0]);
      close(ends[1]);
      throw MachineError(fmt::format("no process: {}", std::strerror(errno)));
    }
    if (process_ == 0) {
      close(ends[0]);
      work(ends[1], how);
    }
    close(ends[1]);
    out_ = ends[0];
  }
  ~Worker() {
    if (out_ < 0) return;  // it has ended, or was moved
    kill(process_, SIGKILL);
    close(out_);
    waitpid(process_, nullptr, 0);
  }
  Worker(Worker&& other) noexcept
      : piece_(other.piece_),
        process_(other.process_),
        out_(std::exchange(other.out_, -1)),
        text_(std::move(other.text_)) {}
  Worker& operator=(Worker&& other) noexcept {
    std::swap(piece_, other.piece_);
    std::swap(process_, other.process_);
    std::swap(out_, other.out_);
    std::swap(text_, other.text_);
    return *this;
  }

  std::int64_t piece() const { return piece_; }
  int out() const { return out_; }
  const std::string& text() const { return text_; }

  // False once all is read; then the process has ended well.
  bool read_more() {
    char buffer[65536];
    const ssize_t n = read(out_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) return true;
    if (n > 0) {
      text_.append(buffer, std::size_t(n));
      return true;
    }
    close(std::exchange(out_, -1));
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == kFailed) throw MachineError(text_);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      throw MachineError(fmt::format("a worker ended early, {}",
                                     WIFSIGNALED(status)
                                         ? fmt::format("by signal {}", WTERMSIG(status))
                                         : fmt::format("with {}", WEXITSTATUS(status))));
    return false;
  }

 private:
  [[noreturn]] void work(int out, const Pieces& how) {
    std::signal(SIGINT, SIG_IGN);  // the parent ends what is not wanted any more
    int code = 0;
    std::string text;
    try {
      text = how.work(piece_);
    } catch (const std::exception& e) {
      text = e.what();
      code = kFailed;
    }
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t n = write(out, text.data() + at, text.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) _exit(1);
      at += std::size_t(n);
    }
    _exit(code);
  }

  std::int64_t piece_;
  pid_t process_ = -1;
  int out_ = -1;
  std::string text_;
};

}  // namespace

void run_pieces(std::span<const std::int64_t> pieces, int jobs, const Pieces& how) {
  std::vector<Worker> workers;
  std::size_t next = 0;
  while (next < pieces.size() || !workers.empty()) {
    while (next < pieces.size() && std::ssize(workers) < jobs)
      workers.emplace_back(pieces[next++], how);
    std::vector<pollfd> ends;
    for (const Worker& w : workers) ends.push_back({w.out(), POLLIN, 0});
    if (poll(ends.data(), nfds_t(ends.size()), kLookMs) < 0 && errno != EINTR)
      throw MachineError(fmt::format("poll: {}", std::strerror(errno)));
    if (how.stop.stop_requested() || (how.should_stop && how.should_stop())) return;
    for (std::size_t i = ends.size(); i-- > 0;) {
      if (ends[i].revents == 0 || workers[i].read_more()) continue;
      const Worker done = std::move(workers[i]);
      workers.erase(workers.begin() + std::ptrdiff_t(i));
      if (!how.take(done.piece(), done.text())) return;
    }
  }
}

}  // namespace rigcast::sim
