#pragma once
// How fast the cores together read memory.

#include "core/units.hpp"
#include "engine/runtime/team.hpp"

namespace rigcast::probe {

/// The median of several passes of the whole team over a buffer that no cache holds. Takes half a
/// second or so. 0 if there is no memory for the buffer.
BytesPerSecond dram_read(engine::Team& team);

}  // namespace rigcast::probe
