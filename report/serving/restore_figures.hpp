#pragma once
// By which rates a server decided between restoring keys and values and computing them anew.

#include <cstdint>
#include <optional>

#include "core/base/units.hpp"

namespace rigcast {

/// Rates are those at the end of the load: as they were measured, or as they are forecast.
struct RestoreFigures {
  std::optional<BytesPerSecond> from_ram, from_disk;  // nullopt: nothing came from there
  double prompt_tokens_per_s = 0;                     // of steps that mostly compute prompts
  std::int64_t computed_anew = 0;                     // tokens that were found, at every admission
};

}  // namespace rigcast
