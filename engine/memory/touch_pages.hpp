#pragma once
// Makes the pages of anonymous memory resident before their first use.

#include <cstddef>

#include "core/base/stop_flag.hpp"

namespace rigcast::engine {

/// Touches all pages of anonymous memory with several threads: clearing them is what takes time.
/// Contents stay. `begin` is at a page boundary. Throws Interrupted within milliseconds of a
/// request to stop.
void touch_pages(std::byte* begin, std::size_t bytes, const StopFlag& stop = {});

}  // namespace rigcast::engine
