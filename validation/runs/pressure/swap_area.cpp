#include "validation/runs/pressure/swap_area.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/swap.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "core/files/interrupt.hpp"
#include "core/text/unit_text.hpp"
#include "validation/runs/pressure/kernel_files.hpp"

namespace rigcast::validation {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPage = 4096;
constexpr double kKeptFree = 256e6;  // of the disk
constexpr std::string_view kFileName = "rigcast-swap-", kNoteName = "rigcast-zram-";
const fs::path kZramControl = "/sys/class/zram-control";

bool write_pages(int fd, std::size_t bytes) {
  const std::vector<char> zeros(1 << 20);
  for (std::size_t at = 0; at < bytes; at += zeros.size()) {
    const std::size_t piece = std::min(zeros.size(), bytes - at);
    errno = ENOSPC;  // a short write says nothing of its own
    if (interrupted() || ::pwrite(fd, zeros.data(), piece, off_t(at)) != ssize_t(piece))
      return false;
  }
  return ::fsync(fd) == 0;
}

// The header that mkswap writes (include/linux/swap.h): version and last page after a kilobyte for
// boot loaders, and the signature at the end of the page.
bool write_header(int fd, std::size_t pages) {
  std::vector<char> page(kPage);
  const std::uint32_t version = 1, last = std::uint32_t(pages - 1);
  std::memcpy(page.data() + 1024, &version, sizeof version);
  std::memcpy(page.data() + 1028, &last, sizeof last);
  std::memcpy(page.data() + kPage - 10, "SWAPSPACE2", 10);
  return ::pwrite(fd, page.data(), page.size(), 0) == ssize_t(kPage) && ::fsync(fd) == 0;
}

int make_file(const fs::path& path) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

// What errno says outlives the closing.
bool close_after(int fd, bool done) {
  const int kept = errno;
  ::close(fd);
  errno = kept;
  return done;
}

fs::path device_of(const std::string& number) { return "/dev/zram" + number; }

// False if the system still swaps on it: there is no room for what it keeps.
bool swap_off(const fs::path& path) {
  while (::swapoff(path.c_str()) != 0) {
    if (errno == EINVAL || errno == ENOENT) return true;  // it did not swap there
    if (errno != EINTR) return false;
  }
  return true;
}

bool remove_zram(const std::string& number) {
  if (!swap_off(device_of(number))) return false;
  static_cast<void>(write_text(fs::path("/sys/block") / ("zram" + number) / "reset", "1"));
  static_cast<void>(write_text(kZramControl / "hot_remove", number));
  return true;
}

std::string word_in(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

// What is still swapped on keeps its name, so that a later run can remove it.
void remove_area(const fs::path& file) {
  const bool is_note = file.filename().string().starts_with(kNoteName);
  const std::string number = is_note ? word_in(file) : std::string();
  if (is_note ? number.empty() || remove_zram(number) : swap_off(file)) ::unlink(file.c_str());
}

// The number of a new device of so many pages, on which the system swaps; empty, with errno, where
// that is not possible.
std::string add_zram(const fs::path& note, std::size_t pages) {
  const std::string number = word_in(kZramControl / "hot_add");
  if (number.empty()) return {};
  std::ofstream out(note);
  if (!(out << number).flush()) {
    static_cast<void>(write_text(kZramControl / "hot_remove", number));
    return {};
  }
  const fs::path block = fs::path("/sys/block") / ("zram" + number);
  if (write_text(block / "disksize", fmt::format("{}", pages * kPage))) {
    const int fd = ::open(device_of(number).c_str(), O_RDWR | O_CLOEXEC);
    const bool written = fd >= 0 && close_after(fd, write_header(fd, pages));
    if (written && ::swapon(device_of(number).c_str(), 0) == 0) return number;
  }
  const int kept = errno;
  remove_area(note);
  errno = kept;
  return {};
}

}  // namespace

Result<std::unique_ptr<SwapArea>> SwapArea::open(const fs::path& folder, Bytes bytes,
                                                 SwapDevice device) {
  for (const std::string_view name : {kFileName, kNoteName})
    for (const fs::path& old : left_behind(folder, name)) remove_area(old);
  const std::size_t pages = std::size_t(bytes.value) / kPage + 1;
  if (device == SwapDevice::kZram) {
    const fs::path note = folder / fmt::format("{}{}", kNoteName, ::getpid());
    if (add_zram(note, pages).empty())
      return failed_at(kZramControl, "there is no swap on zram", "needs root, and modprobe zram");
    return std::unique_ptr<SwapArea>(new SwapArea(note));
  }
  std::error_code unknown;
  const auto space = fs::space(folder, unknown);
  if (!unknown && double(space.available) < bytes.value + kKeptFree)
    return Error{ErrorKind::kMachine,
                 fmt::format("there is no room for a swap file of {}", text_gib(bytes)),
                 "another folder: --scratch, or less memory.swap", SourceRef{folder.string()}};
  const fs::path path = folder / fmt::format("{}{}", kFileName, ::getpid());
  const char* const hint =
      "needs root, and room on a disk whose files may be swapped on: --scratch";
  const int fd = make_file(path);
  if (fd < 0) return failed_at(path, "no swap file can be made", hint);
  const bool written = close_after(fd, write_pages(fd, pages * kPage) && write_header(fd, pages));
  if (written && ::swapon(path.c_str(), 0) == 0)
    return std::unique_ptr<SwapArea>(new SwapArea(path));
  const Error error = failed_at(path, "the system does not swap on it", hint);
  ::unlink(path.c_str());
  return error;
}

SwapArea::~SwapArea() { remove_area(file_); }

std::optional<Error> SwapOfRuns::set(const fs::path& folder,
                                     const std::optional<MemorySettings>& run) {
  const Bytes wanted = run ? run->swap : Bytes{};
  if (area_ && bytes_ == wanted && device_ == run->swap_on) return std::nullopt;
  area_.reset();
  if (wanted.value <= 0) return std::nullopt;
  auto made = SwapArea::open(folder, wanted, run->swap_on);
  if (!made) return made.error();
  area_ = *std::move(made);
  bytes_ = wanted;
  device_ = run->swap_on;
  return std::nullopt;
}

}  // namespace rigcast::validation
