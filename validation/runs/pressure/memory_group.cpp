#include "validation/runs/pressure/memory_group.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "core/text/unit_text.hpp"
#include "validation/runs/pressure/kernel_files.hpp"

namespace rigcast::validation {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPage = 4096;
constexpr std::string_view kGroupName = "rigcast-";

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

bool takes_memory(const TimelineEntry& e) { return e.other.value > 0 || e.files.value > 0; }

}  // namespace

std::optional<PagedIn> paged_in() {
  const auto all = counter("/proc/self/io", "read_bytes");
  const auto swapped = counter("/proc/vmstat", "pswpin");
  if (!all || !swapped) return std::nullopt;
  const double from_swap = *swapped * double(kPage);
  return PagedIn{Bytes{*all - from_swap}, Bytes{from_swap}};
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
    return failed_at(group, "no control group can be made", "needs root");
  std::unique_ptr<MemoryGroup> made(new MemoryGroup(*home, group));
  const Bytes limit = m.limit.value_or(Bytes{});
  if (limit.value > 0 && !write_text(group / "memory.limit_in_bytes", bytes_text(limit)))
    return failed_at(group, "the limit cannot be set", "needs root");
  // Not every kernel counts swap by group.
  if (limit.value > 0)
    static_cast<void>(
        write_text(group / "memory.memsw.limit_in_bytes", bytes_text(limit + m.swap)));
  if (!write_text(group / "memory.swappiness", fmt::format("{}", m.swappiness)))
    return failed_at(group, "swappiness cannot be set", "needs root");
  if (!write_text(group / "cgroup.procs", fmt::format("{}", ::getpid())))
    return failed_at(group, "the process cannot enter it", "needs root");
  return made;
}

MemoryGroup::~MemoryGroup() {
  static_cast<void>(write_text(home_ / "cgroup.procs", fmt::format("{}", ::getpid())));
  ::rmdir(group_.c_str());
}

std::optional<Error> check_pressure(const std::optional<MemorySettings>& run, bool engine) {
  if (!run) return std::nullopt;
  const auto no = [](const char* why) {
    return Error{ErrorKind::kMachine, fmt::format("not run under pressure: {}", why), {}, {}};
  };
  if (!engine) return no("[memory] is set for runs of rigcast alone");
  if (run->timeline.size() > 1 || std::ranges::any_of(run->timeline, takes_memory))
    return no("of [[timeline]] a run has the first entry's stream alone");
  if (!run->limit && run->swap.value <= 0) return std::nullopt;
  if (::geteuid() != 0) return no("a limit and swap need root");
  if (!own_group()) return no("there is no controller of memory (cgroup, version 1)");
  if (!paged_in()) return no("the kernel does not count what a process reads (/proc/self/io)");
  return std::nullopt;
}

}  // namespace rigcast::validation
