#pragma once
// How fast the cores together read memory.

#include "engine/runtime/team.hpp"
#include "probe/takes.hpp"

namespace rigcast::probe {

/// Bytes/s of several passes of the whole team over a buffer that no cache holds. Takes half a
/// second or so. n is 0 if there is no memory for the buffer.
Takes dram_read(engine::Team& team);

}  // namespace rigcast::probe
