#include "validation/runs/pressure/other_programs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace rigcast::validation {
namespace {

constexpr std::size_t kBytes = 256u << 20;
constexpr std::size_t kWords = kBytes / sizeof(std::uint64_t);
constexpr std::size_t kPiece = 1u << 20, kPieceWords = kPiece / sizeof(std::uint64_t);
constexpr Bytes kMinStreamed = 1_GiB;

// Eight sums, so that loads do not wait for one another.
std::uint64_t sum_of(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i < count; i += 8)
    for (std::size_t k = 0; k < 8; ++k) sums[k] += words[i + k];
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all += sum;
  return all;
}

// Memory of the program that calls it, every page of which is its own.
std::uint64_t* own_memory(std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memset(memory, 1, bytes);
  return static_cast<std::uint64_t*>(memory);
}

double seconds_now() {
  ::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

void sleep_for(double seconds) {
  if (seconds <= 0) return;
  const ::timespec rest{time_t(seconds), long(1e9 * (seconds - double(time_t(seconds))))};
  ::nanosleep(&rest, nullptr);
}

bool write_pieces(int fd, Bytes bytes) {
  const std::vector<char> piece(kPiece, 'x');
  for (double at = 0; at < bytes.value; at += double(kPiece))
    if (::write(fd, piece.data(), kPiece) != ssize_t(kPiece)) return false;
  return ::fsync(fd) == 0 && ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
}

// A file without a name, on the disk, none of it in memory.
int file_on_disk(const std::filesystem::path& folder, Bytes bytes) {
  std::string name = (folder / "rigcast-stream-XXXXXX").string();
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return fd;
  ::unlink(name.c_str());
  if (write_pieces(fd, bytes)) return fd;
  const int kept = errno;
  ::close(fd);
  errno = kept;
  return -1;
}

// From the beginning again at the end, when the beginning has long left memory.
void read_on(int fd, double rate, std::atomic<std::uint64_t>& bytes) {
  static char piece[kPiece];
  const double began = seconds_now();
  while (true) {
    const ssize_t got = ::read(fd, piece, kPiece);
    if (got < 0 || (got == 0 && ::lseek(fd, 0, SEEK_SET) < 0)) return;
    bytes += std::uint64_t(got);
    if (rate > 0) sleep_for(began + double(bytes) / rate - seconds_now());
  }
}

Result<std::unique_ptr<OtherProgram>> begin_neighbour() {
  // Both of the program, not of this process.
  static const std::uint64_t* words = nullptr;
  static volatile std::uint64_t sink;
  return OtherProgram::begin([] { return (words = own_memory(kBytes)) != nullptr; },
                             [](std::atomic<std::uint64_t>& bytes) {
                               for (std::size_t at = 0;; at = (at + kPieceWords) % kWords) {
                                 sink = sink + sum_of(words + at, kPieceWords);
                                 bytes += kPiece;
                               }
                             });
}

Result<std::unique_ptr<OtherProgram>> begin_stream(const std::filesystem::path& folder, Bytes file,
                                                   BytesPerSecond rate) {
  const int fd = file_on_disk(folder, file);
  if (fd < 0)
    return Error{ErrorKind::kMachine,
                 fmt::format("no file can be made that is read once: {}", std::strerror(errno)),
                 "--scratch", SourceRef{folder.string()}};
  auto program = OtherProgram::begin(
      [] { return true; },
      [fd, rate](std::atomic<std::uint64_t>& bytes) { read_on(fd, rate.value, bytes); });
  ::close(fd);
  return program;
}

}  // namespace

Result<OtherPrograms> OtherPrograms::begin(int neighbours,
                                           const std::optional<MemorySettings>& memory,
                                           const std::optional<std::filesystem::path>& model_file) {
  OtherPrograms out;
  for (int i = 0; i < neighbours; ++i) {
    auto program = begin_neighbour();
    if (!program) return program.error();
    out.neighbours_.push_back(*std::move(program));
  }
  if (!memory || memory->timeline.empty() || !model_file) return out;
  const BytesPerSecond rate = memory->timeline.front().stream;
  if (rate.value <= 0) return out;
  const Bytes file = std::max(kMinStreamed, 2 * memory->limit.value_or(Bytes{}));
  auto stream = begin_stream(model_file->parent_path(), file, rate);
  if (!stream) return stream.error();
  out.stream_ = *std::move(stream);
  return out;
}

void OtherPrograms::start() {
  for (const auto& program : neighbours_) program->start();
  if (stream_) stream_->start();
}

std::optional<std::string> OtherPrograms::text() const {
  std::vector<std::string> parts;
  BytesPerSecond all;
  for (const auto& program : neighbours_) all += program->rate();
  if (!neighbours_.empty())
    parts.push_back(fmt::format("neighbours read {:.1f} GB/s of memory together", all.value / 1e9));
  if (stream_)
    parts.push_back(
        fmt::format("files that are read once came at {:.0f} MB/s", stream_->rate().value / 1e6));
  if (parts.empty()) return std::nullopt;
  return fmt::format("beside the run, {}", fmt::join(parts, ", "));
}

}  // namespace rigcast::validation
