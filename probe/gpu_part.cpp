#include "probe/gpu_part.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/hardware/hardware_names.hpp"

namespace rigcast::probe {
namespace {

// Drivers report a little less memory than data sheets: firmware and ECC take their part.
constexpr double kSameMemory = 0.1;

// The size in a product name: "80GB" for the 79.6 GiB that a driver reports.
std::string size_of(const Gpu& gpu) {
  return fmt::format(" {:.0f}GB", std::ceil(gpu.memory.value / 0x1p30 - 0.01));
}

}  // namespace

std::string gpu_of_catalogue(const Gpu& gpu, const Catalogue& catalogue) {
  for (const std::string& name : simpler_gpu_names(gpu.name))
    for (const std::string& wanted : {name + size_of(gpu), name})
      if (const auto part = catalogue.gpu(wanted))
        if (std::fabs(gpu.memory / part->memory.value - 1) < kSameMemory) return part->id;
  return "";
}

}  // namespace rigcast::probe
