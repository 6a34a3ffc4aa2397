#include "engine/gguf/mapping.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace rigcast::engine {
namespace {

struct Descriptor {
  int number = -1;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  explicit Descriptor(int opened) : number(opened) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

Error failed(const std::filesystem::path& file, const char* what) {
  return Error{ErrorKind::kMachine,
               fmt::format("cannot {} {}: {}", what, file.string(), std::strerror(errno))};
}

}  // namespace

Result<Mapping> Mapping::open(const std::filesystem::path& file) {
  // A pipe would hold the program until someone writes into it.
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.number < 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    if (missing) return bad_input("no file " + file.string(), "check the path");
    if (errno == EACCES)
      return bad_input("cannot read " + file.string(), "check the file's permissions");
    return failed(file, "open");
  }
  struct stat status {};
  if (::fstat(opened.number, &status) != 0) return failed(file, "read");
  if (S_ISDIR(status.st_mode))
    return bad_input(file.string() + " is a directory", "name a .gguf file in it");
  if (!S_ISREG(status.st_mode))
    return bad_input(file.string() + " is no regular file", "name a .gguf file");
  if (status.st_size <= 0) return bad_input(file.string() + " is empty", "fetch it again");
  const auto size = std::size_t(status.st_size);
  void* begin = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, opened.number, 0);
  if (begin == MAP_FAILED) return failed(file, "map");
  return Mapping({static_cast<const std::byte*>(begin), size});
}

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  // mmap gave these pages to write to nobody; munmap takes them without const.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace rigcast::engine
