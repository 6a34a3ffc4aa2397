#pragma once
// Who is on the cores of a CPU: a runtime's threads, and those of other programs.

#include <string>

#include "core/hardware/rig.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

struct CoreUsers {
  int threads = 0;
  int neighbours = 0;
  bool isolated = false;  // each has cores of its own
};

/// What a forecast does not say of such users; empty: nothing. Refuses the key `isolated` of
/// `runtime` where there are too few processors.
std::string check_cores(const TomlTable& runtime, const CpuPart& cpu, const CoreUsers& users);

}  // namespace rigcast
