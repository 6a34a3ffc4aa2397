#include "engine/gguf/mapping.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace rigcast::engine {
namespace {

// A mapped file, in atomics because signal handlers read it. An entry whose file is nullptr is
// free.
struct Listed {
  std::atomic<const char*> file{nullptr};
  std::atomic<const std::byte*> begin{nullptr}, end{nullptr};
};
constinit std::array<Listed, 256> list;  // mappings beyond that number are not found

class Listing {
 public:
  Listing(std::span<const std::byte> bytes, std::string file) : file_(std::move(file)) {
    for (Listed& free : list) {
      const char* none = nullptr;
      if (!free.file.compare_exchange_strong(none, file_.c_str())) continue;
      entry_ = &free;
      free.begin = bytes.data();
      free.end = bytes.data() + bytes.size();
      return;
    }
  }
  ~Listing() {
    if (!entry_) return;
    entry_->end = nullptr;
    entry_->begin = nullptr;
    entry_->file = nullptr;
  }
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

 private:
  std::string file_;
  Listed* entry_ = nullptr;
};

Error failed(const std::filesystem::path& file, const char* what) {
  return Error{ErrorKind::kMachine,
               fmt::format("cannot {} {}: {}", what, file.string(), std::strerror(errno))};
}

}  // namespace

Result<Mapping> Mapping::open(const std::filesystem::path& file) {
  Mapping mapping;
  // O_NONBLOCK: opening a pipe would block until someone writes to it.
  mapping.descriptor_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (mapping.descriptor_ < 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    if (missing) return bad_input("no file " + file.string(), "check the path");
    if (errno == EACCES)
      return bad_input("cannot read " + file.string(), "check the file's permissions");
    return failed(file, "open");
  }
  struct stat status {};
  if (::fstat(mapping.descriptor_, &status) != 0) return failed(file, "read");
  if (S_ISDIR(status.st_mode))
    return bad_input(file.string() + " is a directory", "name a .gguf file in it");
  if (!S_ISREG(status.st_mode))
    return bad_input(file.string() + " is no regular file", "name a .gguf file");
  if (status.st_size <= 0) return bad_input(file.string() + " is empty", "fetch it again");
  const auto size = std::size_t(status.st_size);
  void* begin = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, mapping.descriptor_, 0);
  if (begin == MAP_FAILED) return failed(file, "map");
  mapping.bytes_ = {static_cast<const std::byte*>(begin), size};
  mapping.listed_ = std::make_shared<const Listing>(mapping.bytes_, file.string());
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(listed_, other.listed_);
  return *this;
}

Mapping::~Mapping() {
  listed_.reset();
  // The pages are read-only; munmap's argument is not const.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
}

const char* mapped_file(const void* address) noexcept {
  const auto* const at = static_cast<const std::byte*>(address);
  for (const Listed& l : list)
    if (at >= l.begin.load() && at < l.end.load()) return l.file.load();
  return nullptr;
}

}  // namespace rigcast::engine
