#include "validation/runs/pressure/memory_group.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/unit_text.hpp"

namespace rigcast::validation {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPage = 4096;
constexpr std::string_view kSwapName = "rigcast-swap-", kGroupName = "rigcast-";

Error failed(const fs::path& at, const std::string& what, std::string hint) {
  return {ErrorKind::kMachine, fmt::format("{}: {}", what, std::strerror(errno)), std::move(hint),
          SourceRef{at.string()}};
}

// The number behind `key` in a file of lines "key value" or "key: value".
std::optional<double> counter(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    double value = 0;
    if (!(words >> name >> value)) continue;
    if (!name.empty() && name.back() == ':') name.pop_back();
    if (name == key) return value;
  }
  return std::nullopt;
}

bool write_text(const fs::path& file, const std::string& text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = ::write(fd, text.data(), text.size()) == ssize_t(text.size());
  const int kept = errno;
  ::close(fd);
  errno = kept;
  return done;
}

// The folder of this process's own group under the first version's controller of memory.
std::optional<fs::path> own_group() {
  const fs::path root = "/sys/fs/cgroup/memory";
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    if (line.substr(first + 1, second - first - 1) != "memory") continue;
    const fs::path own = root / fs::path(line.substr(second + 1)).relative_path();
    // In a container the name is the host's, and the folder is the root.
    std::error_code none;
    return fs::exists(own / "cgroup.procs", none) ? own : root;
  }
  return std::nullopt;
}

std::string bytes_text(Bytes bytes) { return fmt::format("{:.0f}", bytes.value); }

bool write_pages(int fd, std::size_t bytes) {
  const std::vector<char> zeros(1 << 20);
  for (std::size_t at = 0; at < bytes; at += zeros.size())
    if (::pwrite(fd, zeros.data(), std::min(zeros.size(), bytes - at), off_t(at)) < 0) return false;
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

// What a process left behind that was killed: entries of `folder` named `prefix` and its number.
std::vector<fs::path> left_behind(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const std::string number = name.substr(prefix.size());
    const bool is_number =
        !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && !fs::exists("/proc/" + number, none)) found.push_back(entry.path());
  }
  return found;
}

}  // namespace

std::optional<PagedIn> paged_in() {
  const auto all = counter("/proc/self/io", "read_bytes");
  const auto swapped = counter("/proc/vmstat", "pswpin");
  if (!all || !swapped) return std::nullopt;
  const double from_swap = *swapped * double(kPage);
  return PagedIn{Bytes{*all - from_swap}, Bytes{from_swap}};
}

Result<std::unique_ptr<SwapFile>> SwapFile::open(const fs::path& folder, Bytes bytes) {
  for (const fs::path& old : left_behind(folder, kSwapName)) {
    static_cast<void>(::swapoff(old.c_str()));
    ::unlink(old.c_str());
  }
  const fs::path path = folder / fmt::format("{}{}", kSwapName, ::getpid());
  const std::size_t pages = std::size_t(bytes.value) / kPage + 1;
  const char* const hint =
      "needs root, and room on a disk whose files may be swapped on: --scratch";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return failed(path, "no swap file can be made", hint);
  const bool written = write_pages(fd, pages * kPage) && write_header(fd, pages);
  const int kept = errno;
  ::close(fd);
  errno = kept;
  if (written && ::swapon(path.c_str(), 0) == 0)
    return std::unique_ptr<SwapFile>(new SwapFile(path));
  const Error error = failed(path, "the system does not swap on it", hint);
  ::unlink(path.c_str());
  return error;
}

SwapFile::~SwapFile() {
  static_cast<void>(::swapoff(path_.c_str()));
  ::unlink(path_.c_str());
}

Result<std::unique_ptr<MemoryGroup>> MemoryGroup::enter(const MemorySettings& m) {
  const auto home = own_group();
  if (!home)
    return Error{ErrorKind::kMachine,
                 "there is no controller of memory (cgroup, version 1)",
                 "a limit is a control group's: run without [memory] limit",
                 {}};
  for (const fs::path& old : left_behind(*home, kGroupName)) ::rmdir(old.c_str());
  const fs::path group = *home / fmt::format("{}{}", kGroupName, ::getpid());
  if (::mkdir(group.c_str(), 0755) != 0)
    return failed(group, "no control group can be made", "needs root");
  std::unique_ptr<MemoryGroup> made(new MemoryGroup(*home, group));
  const Bytes limit = m.limit.value_or(Bytes{});
  if (limit.value > 0 && !write_text(group / "memory.limit_in_bytes", bytes_text(limit)))
    return failed(group, "the limit cannot be set", "needs root");
  // Not every kernel counts swap by group.
  if (limit.value > 0)
    static_cast<void>(
        write_text(group / "memory.memsw.limit_in_bytes", bytes_text(limit + m.swap)));
  if (!write_text(group / "memory.swappiness", fmt::format("{}", m.swappiness)))
    return failed(group, "swappiness cannot be set", "needs root");
  if (!write_text(group / "cgroup.procs", fmt::format("{}", ::getpid())))
    return failed(group, "the process cannot enter it", "needs root");
  return made;
}

MemoryGroup::~MemoryGroup() {
  static_cast<void>(write_text(home_ / "cgroup.procs", fmt::format("{}", ::getpid())));
  ::rmdir(group_.c_str());
}

std::optional<Error> SwapOfRuns::set(const fs::path& folder,
                                     const std::optional<MemorySettings>& run) {
  const Bytes wanted = run && run->swap_on == SwapDevice::kDisk ? run->swap : Bytes{};
  if (file_ && bytes_ == wanted) return std::nullopt;
  file_.reset();
  if (wanted.value <= 0) return std::nullopt;
  auto made = SwapFile::open(folder, wanted);
  if (!made) return made.error();
  file_ = *std::move(made);
  bytes_ = wanted;
  return std::nullopt;
}

std::optional<Error> check_pressure(const std::optional<MemorySettings>& run, bool engine) {
  if (!run) return std::nullopt;
  const auto no = [](const char* why) {
    return Error{ErrorKind::kMachine, fmt::format("not run under pressure: {}", why), {}, {}};
  };
  if (!engine) return no("[memory] is set for runs of rigcast alone");
  if (run->swap_on == SwapDevice::kZram) return no("swap on zram is not set up for runs");
  if (!run->limit && run->swap.value <= 0) return std::nullopt;
  if (::geteuid() != 0) return no("a limit and swap need root");
  if (!own_group()) return no("there is no controller of memory (cgroup, version 1)");
  if (!paged_in()) return no("the kernel does not count what a process reads (/proc/self/io)");
  return std::nullopt;
}

}  // namespace rigcast::validation
