#pragma once
// Memory of this process, and memory that it may still take, as the system reports them.

#include "core/base/units.hpp"

namespace rigcast::engine {

/// The peak of resident memory, mapped files included, since reset_peak_memory() or the start;
/// since the start where the system cannot reset it.
Bytes peak_memory();
void reset_peak_memory();
/// Memory that is available now, within the limits of system and container.
Bytes available_memory();

}  // namespace rigcast::engine
