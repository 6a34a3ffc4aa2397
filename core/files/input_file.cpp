#include "core/files/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "core/files/interrupt.hpp"

namespace rigcast {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kWriterWait = std::chrono::seconds(2);
constexpr auto kLook = std::chrono::milliseconds(20);

class Descriptor {
 public:
  // Without O_NONBLOCK, to open a FIFO would take until somebody writes to it.
  explicit Descriptor(const fs::path& file)
      : number_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

Error cannot_open(const fs::path& file) {
  if (errno == ENOENT || errno == ENOTDIR)
    return bad_input("no file " + file.string(), "check the path");
  return bad_input(fmt::format("cannot read {}: {}", file.string(), std::strerror(errno)),
                   "check the path and its permissions");
}

Error cannot_read(const fs::path& file) {
  return {ErrorKind::kMachine,
          fmt::format("cannot read {}: {}", file.string(), std::strerror(errno))};
}

// Why it is nothing to read from; nullopt: a regular file, or a pipe.
std::optional<Error> check_kind(const fs::path& file, mode_t mode, int descriptor) {
  const auto is = [&](const char* what) {
    return bad_input(fmt::format("{} is {}", file.string(), what), "name a file");
  };
  if (S_ISDIR(mode)) return is("a directory");
  if (S_ISSOCK(mode)) return is("a socket");
  if (S_ISCHR(mode) && descriptor >= 0 && ::isatty(descriptor)) return is("a terminal");
  if (S_ISCHR(mode) || S_ISBLK(mode)) return is("a device");
  return std::nullopt;
}

Error nobody_writes(const fs::path& file) {
  return bad_input(fmt::format("{} is a pipe, and nobody writes to it", file.string()),
                   "a pipe can be read once: write a file if the program needs it again");
}

Result<std::string> read_all(int descriptor, bool is_pipe, const fs::path& file,
                             std::size_t max_bytes) {
  const auto begin = Clock::now();
  std::string text;
  bool has_writer = !is_pipe;
  for (char piece[65536];;) {
    const ssize_t n = ::read(descriptor, piece, sizeof piece);
    if (n > 0) {
      has_writer = true;
      text.append(piece, std::size_t(n));
      if (text.size() > max_bytes)
        return bad_input(fmt::format("{} is larger than {} MiB", file.string(), max_bytes >> 20));
      continue;
    }
    if (n == 0 && has_writer) return text;
    if (n == 0 && Clock::now() - begin > kWriterWait) return nobody_writes(file);
    if (n < 0 && errno != EINTR && errno != EAGAIN) return cannot_read(file);
    if (interrupted()) return Error{ErrorKind::kMachine, "interrupted"};
    if (n < 0) {
      has_writer = has_writer || errno == EAGAIN;
      pollfd end{descriptor, POLLIN, 0};
      ::poll(&end, 1, int(kLook.count()));
    } else {
      std::this_thread::sleep_for(kLook);
    }
  }
}

}  // namespace

Result<std::string> read_input(const fs::path& file, std::size_t max_bytes) {
  const Descriptor in(file);
  if (in.number() < 0) return cannot_open(file);
  struct stat status {};
  if (::fstat(in.number(), &status) != 0) return cannot_read(file);
  if (auto error = check_kind(file, status.st_mode, in.number())) return *error;
  return read_all(in.number(), S_ISFIFO(status.st_mode), file, max_bytes);
}

std::optional<Error> check_regular_file(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0 || ::access(file.c_str(), R_OK) != 0)
    return cannot_open(file);
  if (auto error = check_kind(file, status.st_mode, -1)) return error;
  if (S_ISREG(status.st_mode)) return std::nullopt;
  return bad_input(fmt::format("{} is a pipe", file.string()), "this must be a file: write one");
}

}  // namespace rigcast
