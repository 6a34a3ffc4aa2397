#pragma once
// What the system says this process takes of memory, and may take.

#include "core/base/units.hpp"

namespace rigcast::engine {

/// The most that was resident, mapped files included, since reset_peak_memory() or the start; the
/// most since the start where the system cannot reset it.
Bytes peak_memory();
void reset_peak_memory();
/// What could be taken now, of the system and of the container that this process is in.
Bytes available_memory();

}  // namespace rigcast::engine
