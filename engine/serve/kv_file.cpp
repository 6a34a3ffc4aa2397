#include "engine/serve/kv_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "core/files/temporary_file.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast::engine {
namespace {

constexpr std::size_t kAlignment = 4096;  // of direct reads and writes, in memory and in the file

Error cannot(const std::string& folder, const char* why) {
  return {ErrorKind::kMachine, fmt::format("no file for keys and values in {}: {}", folder, why),
          "--kv-disk names a folder that you may write to"};
}

Error disk_full(const std::string& folder, Bytes size) {
  std::string free;
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) == 0)
    free = fmt::format(", {} are free",
                       text_gib(Bytes{double(disk.f_bavail) * double(disk.f_frsize)}));
  return {ErrorKind::kDoesNotFit,
          fmt::format("{} has no room for {} of keys and values{}", folder, text_gib(size), free),
          "--kv-disk DIR:SIZE takes less"};
}

bool is_room_for(const std::string& folder, Bytes size) {
  struct statvfs disk {};
  return ::statvfs(folder.c_str(), &disk) != 0 ||
         double(disk.f_bavail) * double(disk.f_frsize) >= size.value;
}

// A file that has no name, or has lost it before anything is written, where the file system knows
// no such files; -1: errno says why.
int open_nameless(const std::string& folder) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  const int nameless = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (nameless >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return nameless;
  std::string name = folder + "/.rigcast-kv-XXXXXX";
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file >= 0) TemporaryFile(name).remove();
  return file;
}

}  // namespace

Result<std::unique_ptr<KvFile>> KvFile::create(const std::filesystem::path& folder, Bytes size,
                                               std::size_t block_bytes) {
  RIGCAST_ASSERT(block_bytes > 0);
  const std::string where = folder.string();
  const std::size_t stride = (block_bytes + kAlignment - 1) / kAlignment * kAlignment;
  const double fitting = std::floor(size.value / double(stride));
  if (!(fitting >= 1))
    return Error{
        ErrorKind::kDoesNotFit,
        fmt::format("{} on disk have no room for one block of {} bytes", text_gib(size), stride),
        "--kv-disk DIR:SIZE takes more"};
  const int blocks = int(std::min(fitting, double(std::numeric_limits<int>::max())));
  const Bytes taken{double(stride) * blocks};
  const int file = open_nameless(where);
  if (file < 0) return cannot(where, std::strerror(errno));
  std::unique_ptr<KvFile> out(new KvFile(file, where, stride, blocks));
  if (!is_room_for(where, taken)) return disk_full(where, taken);
  if (::fallocate(file, 0, 0, off_t(stride) * blocks) != 0) {
    if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) return disk_full(where, taken);
    if (errno != EOPNOTSUPP && errno != ENOSYS) return cannot(where, std::strerror(errno));
    if (::ftruncate(file, off_t(stride) * blocks) != 0) return cannot(where, std::strerror(errno));
  }
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  out->is_direct_ = ::fcntl(file, F_SETFL, O_DIRECT) == 0;
  return out;
}

KvFile::~KvFile() { ::close(file_); }

// Calls transfer(offset within the block, offset in the file) until all bytes are moved.
template <class Transfer>
void KvFile::transfer(const char* what, int block, std::size_t bytes,
                      const Transfer& transfer) const {
  RIGCAST_ASSERT(block >= 0 && block < blocks_ && bytes == stride_);
  const off_t begin = off_t(block) * off_t(stride_);
  for (std::size_t moved = 0; moved < stride_;) {
    const ssize_t now = transfer(moved, begin + off_t(moved));
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0)
      throw MachineError(fmt::format("{} keys and values in {}: {}", what, folder_,
                                     now < 0 ? std::strerror(errno) : "the file is shorter"));
    moved += std::size_t(now);
  }
}

void KvFile::write(int block, std::span<const std::byte> buffer) {
  transfer("writing", block, buffer.size(), [&](std::size_t from, off_t to) {
    return ::pwrite(file_, buffer.data() + from, stride_ - from, to);
  });
  if (is_direct_) return;
  if (::fdatasync(file_) != 0)
    throw MachineError(
        fmt::format("writing keys and values in {}: {}", folder_, std::strerror(errno)));
  ::posix_fadvise(file_, off_t(block) * off_t(stride_), off_t(stride_), POSIX_FADV_DONTNEED);
}

void KvFile::read(int block, std::span<std::byte> buffer) {
  transfer("reading", block, buffer.size(), [&](std::size_t to, off_t from) {
    return ::pread(file_, buffer.data() + to, stride_ - to, from);
  });
  if (!is_direct_)
    ::posix_fadvise(file_, off_t(block) * off_t(stride_), off_t(stride_), POSIX_FADV_DONTNEED);
}

}  // namespace rigcast::engine
