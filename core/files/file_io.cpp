#include "core/files/file_io.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace rigcast {

std::optional<std::size_t> read_at(int file, std::span<std::byte> to, std::uint64_t at) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t n = ::pread(file, to.data() + done, to.size() - done, off_t(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    done += std::size_t(n);
  }
  return done;
}

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes = bytes.subspan(std::size_t(n));
  }
  return true;
}

bool write_back(int file, std::uint64_t bytes, const StopFlag& stop) {
#if defined(__linux__)
  constexpr std::uint64_t kPiece = 16 << 20;  // a tenth of a second of a slow disk
  constexpr unsigned kHow =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  for (std::uint64_t at = 0; at < bytes; at += kPiece) {
    stop.throw_if_requested();
    // Errors of this call are reported by the sync below.
    static_cast<void>(
        ::sync_file_range(file, off_t(at), off_t(std::min(kPiece, bytes - at)), kHow));
  }
#endif
  return ::fdatasync(file) == 0;
}

}  // namespace rigcast
