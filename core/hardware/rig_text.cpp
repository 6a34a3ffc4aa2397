#include "core/hardware/rig_text.hpp"

#include <fmt/format.h>

namespace rigcast {

std::vector<std::string> counted_names(const std::vector<GpuPart>& gpus) {
  std::vector<std::string> names;
  for (std::size_t g = 0; g < gpus.size();) {
    std::size_t end = g;
    while (end < gpus.size() && gpus[end].name == gpus[g].name) ++end;
    names.push_back(end - g > 1 ? fmt::format("{} x {}", end - g, gpus[g].name) : gpus[g].name);
    g = end;
  }
  return names;
}

}  // namespace rigcast
