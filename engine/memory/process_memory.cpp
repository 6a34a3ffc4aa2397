#include "engine/memory/process_memory.hpp"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace rigcast::engine {
namespace {

// "VmHWM:   123 kB" of a file in /proc; 0 where it is not told.
double figure(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    double value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return 0;
}

// A file that holds one number; nullopt where there is none, or another word.
std::optional<double> number_in(const char* file) {
  std::ifstream in(file);
  double value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

Bytes peak_memory() { return Bytes{1024 * figure("/proc/self/status", "VmHWM:")}; }
void reset_peak_memory() {
  ::malloc_trim(0);  // memory freed by earlier runs is returned to the system
  std::ofstream("/proc/self/clear_refs") << "5";
}
Bytes available_memory() {
  const double of_system = 1024 * figure("/proc/meminfo", "MemAvailable:");
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return Bytes{of_system};
  // Inactive pages of files can be reclaimed.
  const double gives_way = figure("/sys/fs/cgroup/memory.stat", "inactive_file");
  return Bytes{std::min(of_system, std::max(0.0, *limit - *used + gives_way))};
}

}  // namespace rigcast::engine
