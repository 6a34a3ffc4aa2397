#include "engine/load/load.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <vector>

#include "core/files/file_io.hpp"
#include "engine/gguf/mapping.hpp"
#include "engine/gguf/model/read_model.hpp"
#include "engine/threads/thread_team.hpp"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; headers of older systems do not know it
#endif

namespace rigcast::engine {
namespace {

constexpr std::uint64_t kChunk = 4 << 20;  // whole large pages
constexpr int kReaders = 8;

struct Piece {
  std::byte* begin = nullptr;
  std::uint64_t bytes = 0;
};

// The file's pages from its first tensor to its last, in chunks that begin large pages: those are
// read from the disk in large requests, and waited for less when they are used. Where the file
// system has none, asking for them changes nothing.
std::vector<Piece> pieces_of(const GgufFile& file) {
  std::vector<Piece> pieces;
  for (const GgufPart& part : file.parts()) {
    if (part.tensors.empty()) continue;
    const TensorInfo& one = part.tensors.front();
    std::byte* base = const_cast<std::byte*>(one.data - one.offset);  // of the mapping
    const std::uint64_t begin = part.data_begin / kChunk * kChunk;
    ::madvise(base + begin, part.bytes - begin, MADV_HUGEPAGE);
    for (std::uint64_t at = begin; at < part.bytes; at += kChunk)
      pieces.push_back({base + at, std::min(kChunk, part.bytes - at)});
  }
  return pieces;
}

void touch_pages(const Piece& piece) {
  const std::uint64_t page = std::uint64_t(::sysconf(_SC_PAGESIZE));
  for (std::uint64_t at = 0; at < piece.bytes; at += page)
    static_cast<void>(*static_cast<volatile const std::byte*>(piece.begin + at));
}

void populate(const Piece& piece) {
  while (::madvise(piece.begin, piece.bytes, MADV_POPULATE_READ) != 0) {
    if (errno == EINTR) continue;
    if (errno == EINVAL) return touch_pages(piece);
    const char* const file = mapped_file(piece.begin);
    throw MachineError(fmt::format(
        "{}: {}", file ? file : "the model",
        errno == EFAULT ? "it was made shorter while it was read, or its disk fails"
                        : fmt::format("reading the weights failed: {}", std::strerror(errno))));
  }
}

class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat facts {};
    if (fd_ >= 0 && ::fstat(fd_, &facts) == 0) bytes_ = std::uint64_t(facts.st_size);
  }
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return fd_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  int fd_;
  std::uint64_t bytes_ = 0;
};

Error machine_error(const std::filesystem::path& path, const char* what) {
  return {ErrorKind::kMachine,
          fmt::format("{}: {}", what, std::strerror(errno)),
          {},
          SourceRef{path.string()}};
}

// Readers sleep until the disk has answered, so there are more of them than cores.
void bring_in(const GgufFile& file, const std::atomic<bool>& refused, const StopFlag& stop) {
  const std::vector<Piece> pieces = pieces_of(file);
  if (pieces.empty()) return;
  ThreadTeam readers(int(std::min<std::size_t>(pieces.size(), kReaders)), ThreadTeam::kSpinTime,
                     stop);
  readers.run([&](Worker& worker) {
    worker.parallel_for(std::int64_t(pieces.size()), 1, [&](std::int64_t i, std::int64_t) {
      if (!refused) populate(pieces[std::size_t(i)]);
    });
  });
}

std::optional<Error> drop(const std::filesystem::path& path, const StopFlag& stop) {
  const OpenFile file(path);
  if (file.get() < 0) return machine_error(path, "cannot be opened");
  // Pages that were not written back yet would stay.
  if (!write_back(file.get(), file.bytes(), stop))
    return machine_error(path, "cannot be written back");
  if (const int failed = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED); failed != 0) {
    errno = failed;
    return machine_error(path, "cannot be dropped from the page cache");
  }
  return std::nullopt;
}

std::optional<Error> read_through(const std::filesystem::path& path, const StopFlag& stop) {
  const OpenFile file(path);
  if (file.get() < 0) return machine_error(path, "cannot be opened");
  const auto chunks = std::int64_t((file.bytes() + kChunk - 1) / kChunk);
  std::atomic<int> failed{0};
  ThreadTeam readers(kReaders, ThreadTeam::kSpinTime, stop);
  readers.run([&](Worker& worker) {
    std::vector<std::byte> buffer(kChunk);
    worker.parallel_for(chunks, 1, [&](std::int64_t i, std::int64_t) {
      if (failed == 0 && !read_at(file.get(), buffer, std::uint64_t(i) * kChunk)) failed = errno;
    });
  });
  if (failed == 0) return std::nullopt;
  errno = failed;
  return machine_error(path, "cannot be read");
}

}  // namespace

// Norms lie all over the file. Read on their own, each is waited for on its own; and one page that
// is read early breaks a large one. A model that is refused is not worth the other pages.
Result<Model> load_with_pages(const GgufFile& file, const StopFlag& stop) {
  std::atomic<bool> refused{false};
  auto binding = std::async(std::launch::async, [&] {
    auto model = load_model(file);
    if (!model) refused = true;
    return model;
  });
  bring_in(file, refused, stop);
  return binding.get();
}

Result<Model> load_mapped(const GgufFile& file, bool in_order) {
  const std::vector<Piece> pieces = pieces_of(file);
  auto model = load_model(file);
  // Its vectors lie all over the file: with the large pages around them, much of it was read. Pages
  // that were used before they are used in order would be taken for ones in frequent use.
  for (const Piece& piece : pieces) {
    ::madvise(piece.begin, piece.bytes, MADV_DONTNEED);
    if (in_order) ::madvise(piece.begin, piece.bytes, MADV_SEQUENTIAL);
  }
  return model;
}

void prefetch_vectors(const GgufFile& file) {
  const auto page = std::uintptr_t(::sysconf(_SC_PAGESIZE));
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.dimensions > 1) continue;
    const auto at = reinterpret_cast<std::uintptr_t>(tensor.data);
    const std::uintptr_t before = at % page;
    auto* const begin = const_cast<std::byte*>(tensor.data - before);
    static_cast<void>(::madvise(begin, tensor.bytes + before, MADV_WILLNEED));
  }
}

std::optional<Error> drop_from_page_cache(const std::filesystem::path& model,
                                          const StopFlag& stop) {
  for (const auto& part : part_paths(model))
    if (auto error = drop(part, stop)) return error;
  return std::nullopt;
}

std::optional<Error> bring_into_page_cache(const std::filesystem::path& model,
                                           const StopFlag& stop) {
  for (const auto& part : part_paths(model))
    if (auto error = read_through(part, stop)) return error;
  return std::nullopt;
}

}  // namespace rigcast::engine
