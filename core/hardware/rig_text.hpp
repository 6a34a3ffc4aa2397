#pragma once
// The parts of a rig in words.

#include <string>
#include <vector>

#include "core/hardware/rig.hpp"

namespace rigcast {

/// "2 x RTX 3090", "RTX 3060": one text for neighbours of the same name.
std::vector<std::string> counted_names(const std::vector<GpuPart>& gpus);

}  // namespace rigcast
