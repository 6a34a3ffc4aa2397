#include "probe/host.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>

namespace rigcast::probe {
namespace {

// The value of the first line "key : value" or "key: value"; empty if there is none.
std::string value_of(const char* file, const std::string& key) {
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

double number_in(const std::string& file) {
  std::ifstream in(file);
  double value = 0;
  return in >> value ? value : std::numeric_limits<double>::infinity();  // the file holds "max", or
                                                                         // does not exist
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

// The widest SIMD level for which llama.cpp, and so the catalogue, has kernels.
std::string simd_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512vnni")) return "avx512-vnni";
  if (__builtin_cpu_supports("avx512bw")) return "avx512";
  if (!value_of("/proc/cpuinfo", "flags").empty() &&
      (" " + value_of("/proc/cpuinfo", "flags") + " ").find(" avx_vnni ") != std::string::npos)
    return "avx-vnni";
  if (__builtin_cpu_supports("avx2")) return "avx2";
  if (__builtin_cpu_supports("avx")) return "avx";
  return __builtin_cpu_supports("sse4.1") ? "sse4" : "scalar";
#elif defined(__aarch64__)
  return "neon";
#else
  return "scalar";
#endif
}

// Size ("1024K") of the cache of that level of the first core.
Bytes cache_of_level(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string at = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    if (number_in(at + "level") != double(level)) continue;
    std::ifstream in(at + "size");
    double size = 0;
    char unit = ' ';
    in >> size >> unit;
    return Bytes{size * (unit == 'K' ? 0x1p10 : unit == 'M' ? 0x1p20 : 1.0)};
  }
  return {};
}

int count_nodes() {
  int nodes = 0;
  while (std::ifstream("/sys/devices/system/node/node" + std::to_string(nodes) + "/cpulist"))
    ++nodes;
  return std::max(1, nodes);
}

}  // namespace

Host read_host() {
  Host host;
  host.cpu = value_of("/proc/cpuinfo", "model name");
  host.simd = simd_level();
  std::ifstream release("/proc/sys/kernel/osrelease");
  std::string kernel;
  std::getline(release, kernel);
  host.os = kernel.find("WSL2") != std::string::npos ? "wsl2" : "linux";
  host.cores = usable_cores();
  host.numa_nodes = count_nodes();
  host.l2 = cache_of_level(2);
  host.l3 = cache_of_level(3);
  const auto kib = [](const char* key) {
    const std::string text = value_of("/proc/meminfo", key);
    return text.empty() ? 0.0 : 1024.0 * std::stod(text);
  };
  const double limit = number_in("/sys/fs/cgroup/memory.max");
  const double used = number_in("/sys/fs/cgroup/memory.current");
  host.memory = Bytes{std::min(kib("MemTotal"), limit)};
  host.contained = limit < kib("MemTotal");
  host.available = Bytes{kib("MemAvailable")};
  if (std::isfinite(limit) && std::isfinite(used))
    host.available = std::min(host.available, Bytes{std::max(0.0, limit - used)});
  return host;
}

}  // namespace rigcast::probe
