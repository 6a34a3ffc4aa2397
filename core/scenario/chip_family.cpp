#include "core/scenario/chip_family.hpp"

#include <set>

#include "core/hardware/cpu_architecture.hpp"
#include "core/hardware/rig.hpp"

namespace rigcast {

std::vector<std::string> chip_families(const Rig& rig, Regime regime) {
  if (regime == Regime::kCpuOnly || rig.gpus.empty()) return {rig.cpu.simd};
  std::set<std::string> families;
  for (const GpuPart& gpu : rig.gpus) families.insert(gpu.architecture);
  return {families.begin(), families.end()};
}

bool has_slow_host(const Rig& rig, Regime regime) {
  return regime != Regime::kCpuOnly && !rig.gpus.empty() && has_slow_host(rig.cpu);
}

}  // namespace rigcast
