#include "engine/gguf/writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace rigcast::engine {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kChunkBytes = 4u << 20;

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Two writers of one process and one target do not write over each other.
fs::path temporary_name(const fs::path& target) {
  static std::atomic<int> count{0};
  return fmt::format("{}.{}-{}.tmp", target.string(), ::getpid(), count++);
}

}  // namespace

GgufWriter::GgufWriter(fs::path target, GgufHeader header)
    : target_(std::move(target)), header_(std::move(header)) {}

GgufWriter::GgufWriter(GgufWriter&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      header_(std::move(other.header_)),
      written_(other.written_),
      file_(std::exchange(other.file_, -1)) {}

GgufWriter::~GgufWriter() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Error GgufWriter::failed(const char* what) const {
  const int code = errno;
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return Error{ErrorKind::kMachine,
               fmt::format("cannot {} {}: {}", what, target_.string(), std::strerror(code)),
               full ? fmt::format("the file takes {} bytes", header_.data_bytes()) : ""};
}

Result<GgufWriter> GgufWriter::create(const fs::path& target, GgufHeader header) {
  std::error_code ignored;
  if (target.filename().empty()) return bad_input("no file to write to: " + target.string());
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored))
    return bad_input(target.string() + " is no regular file", "name a file to write to");
  GgufWriter writer(target, std::move(header));
  if (auto error = writer.open()) return *error;
  if (auto error = writer.put(as_bytes(writer.header_.encode()))) return *error;
  return writer;
}

std::optional<Error> GgufWriter::open() {
  fs::path temporary = temporary_name(target_);
  file_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) return failed("create");
  temporary_ = std::move(temporary);
  return std::nullopt;
}

std::optional<Error> GgufWriter::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("write");
    bytes = bytes.subspan(std::size_t(count));
  }
  return std::nullopt;
}

const PlannedTensor* GgufWriter::next() const {
  return written_ < header_.tensors().size() ? &header_.tensors()[written_] : nullptr;
}

std::optional<Error> GgufWriter::end_tensor(const PlannedTensor& tensor) {
  ++written_;
  const std::string padding(std::size_t(header_.padded(tensor.bytes) - tensor.bytes), '\0');
  return put(as_bytes(padding));
}

std::optional<Error> GgufWriter::write(std::span<const std::byte> data) {
  RIGCAST_ASSERT(next() != nullptr && data.size() == next()->bytes);
  if (auto error = put(data)) return error;
  return end_tensor(*next());
}

std::optional<Error> GgufWriter::write_chunks(const Fill& fill) {
  RIGCAST_ASSERT(next() != nullptr);
  const PlannedTensor& tensor = *next();
  const std::uint64_t block = info(tensor.format).block_bytes;
  const std::uint64_t blocks = tensor.bytes / block;
  const std::uint64_t at_once = std::min(blocks, std::max<std::uint64_t>(1, kChunkBytes / block));
  std::vector<std::byte> chunk(std::size_t(at_once * block));
  for (std::uint64_t first = 0; first < blocks; first += at_once) {
    const std::uint64_t count = std::min(at_once, blocks - first);
    const std::span<std::byte> part(chunk.data(), std::size_t(count * block));
    fill(first, part);
    if (auto error = put(part)) return error;
  }
  return end_tensor(tensor);
}

std::optional<Error> GgufWriter::finish() {
  RIGCAST_ASSERT(next() == nullptr && file_ >= 0);
  if (::fsync(file_) != 0) return failed("write");
  if (::close(std::exchange(file_, -1)) != 0) return failed("write");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return failed("write");
  temporary_.clear();
  // The new name is on the disk when its folder is. Some file systems have no such thing.
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  if (const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); opened >= 0) {
    ::fsync(opened);
    ::close(opened);
  }
  return std::nullopt;
}

}  // namespace rigcast::engine
