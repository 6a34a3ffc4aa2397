#include "core/files/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "core/files/file_io.hpp"

namespace rigcast {
namespace fs = std::filesystem;
namespace {

// Standard output or error, where the file is one of them: "/dev/stdout", or the file that the
// shell opened for it. nullopt: it is another.
std::optional<int> stream_of(const struct stat& file) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat own {};
    if (::fstat(stream, &own) == 0 && own.st_dev == file.st_dev && own.st_ino == file.st_ino)
      return stream;
  }
  return std::nullopt;
}

// The name of a temporary file in the target's folder. It does not include the target's name, which
// may have the maximum length. The counter keeps two writers of one process apart.
std::string next_name(const fs::path& target) {
  static std::atomic<int> count{0};
  const std::string name = fmt::format(".rigcast-{}-{}.tmp", ::getpid(), count++);
  return (target.parent_path() / name).string();
}

// The file that a chain of links names, be it there or not; nullopt: the links have no end.
std::optional<fs::path> end_of_links(fs::path path) {
  constexpr int kMaxLinks = 40;  // as Linux follows
  std::error_code none;
  for (int i = 0; i < kMaxLinks; ++i) {
    if (!fs::is_symlink(path, none)) return path;
    path = path.parent_path() / fs::read_symlink(path, none);  // an absolute one stays what it is
  }
  return std::nullopt;
}

// What errno says.
Error cannot(const char* what, const fs::path& target) {
  return {ErrorKind::kMachine,
          fmt::format("cannot {} {}: {}", what, target.string(), std::strerror(errno))};
}

// While one lives, signals that end the program wait.
class SignalsLater {
 public:
  SignalsLater() {
    sigset_t these;
    ::sigemptyset(&these);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&these, signal);
    ::pthread_sigmask(SIG_BLOCK, &these, &before_);
  }
  ~SignalsLater() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsLater(const SignalsLater&) = delete;
  SignalsLater& operator=(const SignalsLater&) = delete;

 private:
  sigset_t before_{};
};

// Opens what is no regular file. Who reads from a pipe is waited for, but not for ever.
int open_in_place(const fs::path& target) {
  constexpr auto kReaderWait = std::chrono::seconds(2);
  const auto begin = std::chrono::steady_clock::now();
  const auto open = [&] {
    return ::open(target.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  };
  int file = open();
  while (file < 0 && errno == ENXIO && std::chrono::steady_clock::now() - begin < kReaderWait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    file = open();
  }
  if (file >= 0) ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return file;
}

}  // namespace

bool is_replaced(const fs::path& target) {
  struct stat there {};
  if (::stat(target.c_str(), &there) != 0) return true;
  return S_ISREG(there.st_mode) && !stream_of(there);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      file_(std::exchange(other.file_, -1)),
      written_(other.written_) {}

OutputFile::~OutputFile() {
  if (file_ >= 0) ::close(file_);
}

Error OutputFile::failed(const char* what) const { return cannot(what, target_); }

Result<OutputFile> OutputFile::create(const fs::path& target) {
  OutputFile out(target);
  struct stat there {};
  const bool is_there = ::stat(target.c_str(), &there) == 0;
  if (target.filename().empty() || (is_there && S_ISDIR(there.st_mode))) {
    errno = target.empty() ? ENOENT : EISDIR;
    return out.failed("create");
  }
  if (is_replaced(target)) {
    if (auto error = out.open_beside()) return *error;
    return out;
  }
  const auto stream = stream_of(there);
  // The file is opened without O_TRUNC: it may be the program's own standard output, whose content
  // belongs to the user.
  out.file_ = stream ? ::fcntl(*stream, F_DUPFD_CLOEXEC, 0) : open_in_place(target);
  if (out.file_ < 0 && errno == ENXIO && S_ISFIFO(there.st_mode))
    return Error{ErrorKind::kMachine,
                 fmt::format("cannot write {}: nobody reads from this pipe", target.string())};
  if (out.file_ < 0) return out.failed("open");
  return out;
}

// If the target is a link to a file, the new file is created beside that file, and replaces it.
std::optional<Error> OutputFile::open_beside() {
  const auto file = end_of_links(target_);
  if (!file) {
    errno = ELOOP;
    return failed("create");
  }
  target_ = *file;
  std::string name;
  do {
    name = next_name(target_);
    file_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  } while (file_ < 0 && errno == EEXIST);  // of a process that had this one's number
  if (file_ < 0) return failed("create");
  temporary_ = TemporaryFile(name);
  return std::nullopt;
}

std::optional<Error> OutputFile::write(std::span<const std::byte> bytes) {
  if (!write_all(file_, bytes)) return failed("write");
  written_ += bytes.size();
  return std::nullopt;
}

std::optional<Error> OutputFile::skip(std::uint64_t bytes) {
  if (!temporary_.path().empty()) {
    written_ += bytes;
    const auto end = off_t(written_);
    if (::ftruncate(file_, end) != 0 || ::lseek(file_, end, SEEK_SET) != end)
      return failed("write");
    return std::nullopt;
  }
  const std::vector<std::byte> zeros(std::size_t(std::min<std::uint64_t>(bytes, 1 << 20)));
  for (std::uint64_t done = 0; done < bytes;) {
    const std::size_t part = std::size_t(std::min<std::uint64_t>(bytes - done, zeros.size()));
    if (auto error = write(std::span(zeros).first(part))) return error;
    done += part;
  }
  return std::nullopt;
}

std::optional<Error> OutputFile::sync(const StopFlag& stop) {
  if (!write_back(file_, written_, stop)) return failed("write");
  return std::nullopt;
}

std::optional<Error> OutputFile::finish() {
  if (::close(std::exchange(file_, -1)) != 0) return failed("write");
  if (temporary_.path().empty()) return std::nullopt;
  if (std::rename(temporary_.path().c_str(), target_.c_str()) != 0) return failed("write");
  temporary_.keep();
  return std::nullopt;
}

std::optional<Error> check_writable(const fs::path& target) {
  struct stat there {};
  // A pipe is not opened: its reader would see it closed again, and take that for its end.
  if (::stat(target.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)) {
    if (stream_of(there) || ::access(target.c_str(), W_OK) == 0) return std::nullopt;
    return cannot("open", target);
  }
  const SignalsLater later;  // one that ends the program would leave the file
  const auto file = OutputFile::create(target);
  return file ? std::nullopt : std::optional(file.error());
}

std::optional<Error> make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed || !fs::is_directory(folder, failed)) {
    errno = failed ? failed.value() : ENOTDIR;
    return cannot("create", folder);
  }
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? std::nullopt
                                                    : std::optional(cannot("write to", folder));
}

std::optional<Error> write_file(const std::filesystem::path& target, std::string_view text) {
  auto file = OutputFile::create(target);
  if (!file) return file.error();
  if (auto error = file->write(std::as_bytes(std::span(text)))) return error;
  return file->finish();
}

}  // namespace rigcast
