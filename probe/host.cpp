#include "probe/host.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace rigcast::probe {
namespace fs = std::filesystem;
namespace {

// The value of the first line "key : value" or "key: value"; empty if there is none.
std::string value_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

double number_in(const fs::path& file) {
  std::ifstream in(file);
  double value = 0;
  return in >> value ? value : std::numeric_limits<double>::infinity();  // the file holds "max", or
                                                                         // does not exist
}

// Cores that captured files tell; hardware threads of one core count once.
int listed_cores(const fs::path& cpuinfo) {
  std::ifstream in(cpuinfo);
  std::set<std::string> cores;
  std::string processor, package;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("processor")) cores.insert(processor = line);
    if (line.starts_with("physical id")) package = line;
    if (line.starts_with("core id")) {  // behind both of them
      cores.erase(processor);
      cores.insert(package + line);
    }
  }
  return std::max(1, int(cores.size()));
}

// The number of cores that this process may use; hardware threads of one core count once.
int usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return std::max(1, int(::sysconf(_SC_NPROCESSORS_ONLN)));
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(std::size_t(cpu), &allowed)) continue;
    std::ifstream in("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                     "/topology/thread_siblings_list");
    std::string siblings;
    if (!(in >> siblings)) siblings = std::to_string(cpu);
    cores.insert(siblings);
  }
  // A container's CPU quota: "200000 100000" is two processors.
  std::ifstream quota("/sys/fs/cgroup/cpu.max");
  double time = 0, period = 0;
  const int most =
      quota >> time >> period && period > 0 ? std::max(1, int(time / period)) : int(cores.size());
  return std::clamp(int(cores.size()), 1, most);
}

// The widest SIMD level for which llama.cpp, and so the catalogue, has kernels: by the flags that
// the kernel lists, which are those that it has enabled.
std::string simd_level(const fs::path& cpuinfo) {
  const auto levels = [](std::string flags,
                         std::initializer_list<std::pair<const char*, const char*>> known) {
    flags = " " + flags + " ";
    for (const auto& [flag, level] : known)
      if (flags.find(std::string(" ") + flag + " ") != std::string::npos) return std::string(level);
    return std::string("scalar");
  };
  const std::string arm = value_of(cpuinfo, "Features");
  if (!arm.empty())
    return levels(arm, {{"i8mm", "neon-i8mm"}, {"asimddp", "neon-dotprod"}, {"asimd", "neon"}});
  return levels(value_of(cpuinfo, "flags"), {{"avx512_vnni", "avx512-vnni"},
                                             {"avx512bw", "avx512"},
                                             {"avx_vnni", "avx-vnni"},
                                             {"avx2", "avx2"},
                                             {"avx", "avx"},
                                             {"sse4_1", "sse4"}});
}

// The number of sockets, by the ids of the packages.
int count_sockets(const fs::path& cpuinfo) {
  std::ifstream in(cpuinfo);
  std::set<std::string> packages;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("physical id")) packages.insert(line);
  return std::max(1, int(packages.size()));
}

// Size ("1024K") of the cache of that level of the first core.
Bytes cache_of_level(const fs::path& root, int level) {
  for (int index = 0; index < 8; ++index) {
    const fs::path at =
        root / "sys/devices/system/cpu/cpu0/cache" / ("index" + std::to_string(index));
    if (number_in(at / "level") != double(level)) continue;
    std::ifstream in(at / "size");
    double size = 0;
    char unit = ' ';
    in >> size >> unit;
    return Bytes{size * (unit == 'K' ? 0x1p10 : unit == 'M' ? 0x1p20 : 1.0)};
  }
  return {};
}

std::string word_in(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

// Processors that this process may use; of a captured machine all of them.
std::set<int> usable_processors(const fs::path& root, const std::vector<int>& all) {
  std::set<int> usable(all.begin(), all.end());
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (root != "/" || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return usable;
  std::erase_if(usable, [&](int cpu) {
    return cpu >= CPU_SETSIZE || !CPU_ISSET(std::size_t(cpu), &allowed);
  });
  return usable;
}

std::vector<MemoryNode> memory_nodes(const fs::path& root) {
  const fs::path system = root / "sys/devices/system";
  std::vector<MemoryNode> nodes;
  for (const int id : numbers_in_list(word_in(system / "node/has_memory"))) {
    const fs::path folder = system / "node" / ("node" + std::to_string(id));
    MemoryNode node{{id}, {}, 0, 0};
    std::set<std::string> cores;
    for (const int cpu : usable_processors(root, numbers_in_list(word_in(folder / "cpulist")))) {
      const fs::path topology = system / "cpu" / ("cpu" + std::to_string(cpu)) / "topology";
      const std::string siblings = word_in(topology / "thread_siblings_list");
      cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
      const auto socket = numbers_in_list(word_in(topology / "physical_package_id"));
      if (!socket.empty()) node.socket = socket.front();
      node.cpus.push_back(cpu);
    }
    node.cores = int(cores.size());
    if (!node.cpus.empty()) nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

std::vector<int> numbers_in_list(const std::string& text) {
  constexpr int kMaxRange = 1 << 16;  // processors of one range
  std::vector<int> numbers;
  std::istringstream in(text);
  for (std::string range; std::getline(in, range, ',');) {
    int first = 0, last = 0;
    const char* end = range.data() + range.size();
    const auto from = std::from_chars(range.data(), end, first);
    if (from.ec != std::errc{} || first < 0) return {};
    last = first;
    if (from.ptr != end) {
      const auto to = std::from_chars(from.ptr + 1, end, last);
      if (*from.ptr != '-' || to.ec != std::errc{} || to.ptr != end) return {};
    }
    if (last < first || last - first > kMaxRange) return {};
    for (int n = first; n <= last; ++n) numbers.push_back(n);
  }
  return numbers;
}

Host read_host(const fs::path& root) {
  const fs::path cpuinfo = root / "proc/cpuinfo";
  Host host;
  host.cpu = value_of(cpuinfo, "model name");
  host.simd = simd_level(cpuinfo);
  host.amx = (" " + value_of(cpuinfo, "flags") + " ").find(" amx_int8 ") != std::string::npos;
  host.sockets = count_sockets(cpuinfo);
  std::ifstream release(root / "proc/sys/kernel/osrelease");
  std::string kernel;
  std::getline(release, kernel);
  host.os = kernel.find("WSL2") != std::string::npos ? "wsl2" : "linux";
  host.cores = root == "/" ? usable_cores() : listed_cores(cpuinfo);
  host.nodes = memory_nodes(root);
  host.l2 = cache_of_level(root, 2);
  host.l3 = cache_of_level(root, 3);
  const auto kib = [&](const char* key) {
    const std::string text = value_of(root / "proc/meminfo", key);
    return text.empty() ? 0.0 : 1024.0 * std::stod(text);
  };
  const double limit = number_in(root / "sys/fs/cgroup/memory.max");
  const double used = number_in(root / "sys/fs/cgroup/memory.current");
  host.memory = Bytes{std::min(kib("MemTotal"), limit)};
  host.contained = limit < kib("MemTotal");
  host.available = Bytes{kib("MemAvailable")};
  if (std::isfinite(limit) && std::isfinite(used))
    host.available = std::min(host.available, Bytes{std::max(0.0, limit - used)});
  return host;
}

}  // namespace rigcast::probe
