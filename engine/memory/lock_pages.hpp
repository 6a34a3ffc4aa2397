#pragma once
// Memory that the kernel may neither swap nor drop.

#include <cstddef>

namespace rigcast::engine {

/// Locks the pages of [begin, begin + bytes) until they are unmapped. `what` they are for goes on
/// with "the". Throws MachineError where the system does not allow so much.
void lock_pages(const std::byte* begin, std::size_t bytes, const char* what);

}  // namespace rigcast::engine
