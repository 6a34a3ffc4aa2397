#include "engine/load/upload_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/files/file_io.hpp"

namespace rigcast::engine {
namespace {

constexpr int kSamples = 8;  // of a read's pages, to see whether the page cache has it

MachineError failed(const std::string& path, const std::string& what) {
  return MachineError(fmt::format("{}: reading the weights failed: {}", path, what));
}

struct Range {
  std::uint64_t begin = 0, end = 0;
};

void read_all(int descriptor, const std::string& path, const Range& wanted, std::byte* to) {
  const std::size_t bytes = std::size_t(wanted.end - wanted.begin);
  const auto got = read_at(descriptor, {to, bytes}, wanted.begin);
  if (!got) throw failed(path, std::strerror(errno));
  if (*got < bytes) throw failed(path, fmt::format("it ends at byte {}", wanted.begin + *got));
}

}  // namespace

UploadReader::UploadReader(std::span<const HostTensor> tensors, const GgufFile* file,
                           std::span<const UploadRead> reads, bool past_page_cache)
    : tensors_(tensors), parts_(file ? file->parts().size() : 0) {
  try {
    for (const UploadRead& read : reads)
      if (read.part != UploadRead::kMemory && parts_[std::size_t(read.part)].buffered < 0)
        open_part(parts_[std::size_t(read.part)], *file, std::size_t(read.part), past_page_cache);
  } catch (...) {
    close_all();
    throw;
  }
}

UploadReader::~UploadReader() { close_all(); }

void UploadReader::close_all() noexcept {
  for (const Part& part : parts_)
    if (part.direct >= 0) ::close(part.direct);
}

void UploadReader::open_part(Part& part, const GgufFile& file, std::size_t index,
                             bool past_page_cache) {
  const GgufPart& facts = file.parts()[index];
  part.path = file.part_path(index).string();
  part.mapped = facts.tensors.front().data - facts.tensors.front().offset;
  part.bytes = facts.bytes;
  part.buffered = file.descriptor(index);
  struct stat status {};
  if (::fstat(part.buffered, &status) != 0) throw failed(part.path, std::strerror(errno));
  if (std::uint64_t(status.st_size) != part.bytes)
    throw failed(part.path, "it is not the file any more that was opened");
  if (!past_page_cache) return;
  // File systems in memory have no way past the page cache: then all comes through it.
  const std::string same = fmt::format("/proc/self/fd/{}", part.buffered);
  part.direct = ::open(same.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
}

// By a few pages. A guess: what is read is the same either way.
bool UploadReader::is_cached(const Part& part, const UploadRead& read) const {
  static const std::uint64_t page = std::uint64_t(::sysconf(_SC_PAGESIZE));
  for (int i = 0; i < kSamples; ++i) {
    const std::uint64_t at = read.offset + (read.bytes - 1) * std::uint64_t(i) / (kSamples - 1);
    unsigned char resident = 0;
    auto* begin = const_cast<std::byte*>(part.mapped + at / page * page);
    if (::mincore(begin, 1, &resident) != 0 || (resident & 1u) == 0) return false;
  }
  return true;
}

void UploadReader::from_memory(const UploadRead& read, std::byte* buffer) const {
  for (const UploadPiece& piece : read.pieces)
    std::memcpy(buffer + piece.at, tensors_[piece.tensor].data + piece.first_byte, piece.bytes);
}

UploadReader::Filled UploadReader::fill(const UploadRead& read, std::byte* buffer) const {
  if (read.part == UploadRead::kMemory) {
    from_memory(read, buffer);
    return {buffer, false};
  }
  const Part& part = parts_[std::size_t(read.part)];
  const Range wanted{read.offset, read.offset + read.bytes};
  if (part.direct < 0 || is_cached(part, read)) {
    read_all(part.buffered, part.path, wanted, buffer);
    return {buffer, false};
  }
  // Whole blocks of the disk; the file's last one may be cut off. Where a read has stopped between
  // blocks, the rest cannot come this way.
  const std::uint64_t begin = wanted.begin / kAlignment * kAlignment;
  const std::uint64_t end = (wanted.end + kAlignment - 1) / kAlignment * kAlignment;
  std::uint64_t at = begin;
  while (at < wanted.end && at % kAlignment == 0) {
    const ssize_t got = ::pread(part.direct, buffer + (at - begin), end - at, off_t(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL) break;  // blocks larger than these
    if (got < 0) throw failed(part.path, std::strerror(errno));
    if (got == 0) throw failed(part.path, fmt::format("it ends at byte {}", at));
    at += std::uint64_t(got);
  }
  const bool direct = at > begin;
  if (at < wanted.end) read_all(part.buffered, part.path, {at, wanted.end}, buffer + (at - begin));
  return {buffer + (wanted.begin - begin), direct};
}

}  // namespace rigcast::engine
