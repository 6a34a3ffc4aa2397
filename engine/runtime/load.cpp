#include "engine/runtime/load.hpp"

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
#include <stop_token>
#include <vector>

#include "engine/gguf/read_model.hpp"
#include "engine/runtime/team.hpp"

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
  if (::madvise(piece.begin, piece.bytes, MADV_POPULATE_READ) == 0) return;
  if (errno == EINVAL) return touch_pages(piece);
  throw MachineError(fmt::format("reading the weights failed: {}", std::strerror(errno)));
}

class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error machine_error(const std::filesystem::path& path, const char* what) {
  return {ErrorKind::kMachine,
          fmt::format("{}: {}", what, std::strerror(errno)),
          {},
          SourceRef{path.string()}};
}

// Readers sleep until the disk has answered, so there are more of them than cores.
void bring_in(const GgufFile& file, const std::stop_token& stop) {
  const std::vector<Piece> pieces = pieces_of(file);
  if (pieces.empty()) return;
  Team readers(int(std::min<std::size_t>(pieces.size(), kReaders)));
  readers.run([&](Worker& worker) {
    worker.share(std::int64_t(pieces.size()), 1, [&](std::int64_t i, std::int64_t) {
      if (!stop.stop_requested()) populate(pieces[std::size_t(i)]);
    });
  });
}

}  // namespace

// Norms lie all over the file. Read on their own, each is waited for on its own; and one page that
// is read early breaks a large one. A model that is refused is not worth the other pages.
Result<Model> load_with_pages(const GgufFile& file) {
  std::stop_source refused;
  auto binding = std::async(std::launch::async, [&] {
    auto model = load_model(file);
    if (!model) refused.request_stop();
    return model;
  });
  bring_in(file, refused.get_token());
  return binding.get();
}

void ask_for_vectors(const GgufFile& file) {
  const auto page = std::uintptr_t(::sysconf(_SC_PAGESIZE));
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.dimensions > 1) continue;
    const auto at = reinterpret_cast<std::uintptr_t>(tensor.data);
    const std::uintptr_t before = at % page;
    auto* const begin = const_cast<std::byte*>(tensor.data - before);
    static_cast<void>(::madvise(begin, tensor.bytes + before, MADV_WILLNEED));
  }
}

std::optional<Error> drop_from_page_cache(const std::filesystem::path& path) {
  const OpenFile file(path);
  if (file.get() < 0) return machine_error(path, "cannot be opened");
  // Pages that were not written back yet would stay.
  if (::fdatasync(file.get()) != 0) return machine_error(path, "cannot be written back");
  if (const int failed = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED); failed != 0) {
    errno = failed;
    return machine_error(path, "cannot be dropped from the page cache");
  }
  return std::nullopt;
}

std::optional<Error> bring_into_page_cache(const std::filesystem::path& path) {
  const OpenFile file(path);
  struct stat facts {};
  if (file.get() < 0 || ::fstat(file.get(), &facts) != 0)
    return machine_error(path, "cannot be opened");
  const std::uint64_t bytes = std::uint64_t(facts.st_size);
  std::atomic<std::uint64_t> next{0};
  std::atomic<int> failed{0};
  Team readers(kReaders);
  readers.run([&](Worker&) {
    std::vector<std::byte> buffer(kChunk);
    for (std::uint64_t at; failed == 0 && (at = next.fetch_add(kChunk)) < bytes;)
      if (::pread(file.get(), buffer.data(), kChunk, off_t(at)) < 0 && errno != EINTR)
        failed = errno;
  });
  if (failed == 0) return std::nullopt;
  errno = failed;
  return machine_error(path, "cannot be read");
}

Result<std::uint64_t> cached_bytes(const std::filesystem::path& path) {
  const OpenFile file(path);
  struct stat facts {};
  if (file.get() < 0 || ::fstat(file.get(), &facts) != 0)
    return machine_error(path, "cannot be opened");
  const std::size_t bytes = std::size_t(facts.st_size);
  const std::size_t page = std::size_t(::sysconf(_SC_PAGESIZE));
  void* map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (map == MAP_FAILED) return machine_error(path, "cannot be mapped");
  std::vector<unsigned char> resident((bytes + page - 1) / page);
  const bool known = ::mincore(map, bytes, resident.data()) == 0;
  ::munmap(map, bytes);
  if (!known) return machine_error(path, "its cached pages are not known");
  std::uint64_t pages = 0;
  for (const unsigned char r : resident) pages += r & 1u;
  return std::min<std::uint64_t>(bytes, pages * page);
}

}  // namespace rigcast::engine
