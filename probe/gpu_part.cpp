#include "probe/gpu_part.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/hardware/hardware_names.hpp"

namespace rigcast::probe {
namespace {

// Drivers report a little less memory than data sheets: firmware and ECC take their part.
constexpr double kSameMemory = 0.1;

// The size in a product name: "80GB" for the 79.6 GiB that a driver reports.
std::string size_of(Bytes memory) {
  return fmt::format(" {:.0f}GB", std::ceil(memory.value / 0x1p30 - 0.01));
}

}  // namespace

std::string gpu_of_catalogue(const Gpu& gpu, const Catalogue& catalogue) {
  return gpu_of_catalogue(gpu.name, gpu.memory, catalogue);
}

std::string gpu_of_catalogue(const std::string& called, Bytes memory, const Catalogue& catalogue) {
  for (const std::string& name : simpler_gpu_names(called))
    for (const std::string& wanted : {name + size_of(memory), name})
      if (const auto part = catalogue.gpu(wanted))
        if (std::fabs(memory / part->memory.value - 1) < kSameMemory) return part->id;
  return "";
}

}  // namespace rigcast::probe
