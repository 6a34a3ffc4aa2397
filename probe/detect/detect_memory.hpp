#pragma once
// Type, speed and channels of the memory modules, where they are told.

#include <optional>
#include <string>

#include "core/base/units.hpp"

namespace rigcast::probe {

struct MemoryModules {
  std::string type;        // "ddr5"
  int mega_transfers = 0;  // as configured
  int count = 0;           // modules that are plugged in
};

/// Of the output of `dmidecode -t memory`, which only root may read; nullopt: it tells no type or
/// no speed.
std::optional<MemoryModules> modules_of(const std::string& dmidecode);

}  // namespace rigcast::probe
