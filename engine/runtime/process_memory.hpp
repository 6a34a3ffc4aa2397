#pragma once
// What the system says this process takes of memory, and may take.

#include "core/base/units.hpp"

namespace rigcast::engine {

/// Resident now, mapped files included.
Bytes resident_memory();
/// The most it was since reset_peak_memory() or the start; the most since the start where the
/// system cannot reset it.
Bytes peak_memory();
void reset_peak_memory();
/// What could be taken now, of the system and of the container that this process is in.
Bytes available_memory();
/// Bytes that this process has had read from disks.
Bytes read_from_disk();

}  // namespace rigcast::engine
