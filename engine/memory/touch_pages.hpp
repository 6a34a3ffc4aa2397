#pragma once
// Memory that the system has already given when it is used first.

#include <cstddef>

#include "core/base/stop_flag.hpp"

namespace rigcast::engine {

/// Takes all pages of anonymous memory from the system, by several threads: clearing them is what
/// takes time. What they hold stays. `begin` begins a page. Throws Interrupted within milliseconds
/// of being asked to stop.
void touch_pages(std::byte* begin, std::size_t bytes, const StopFlag& stop = {});

}  // namespace rigcast::engine
