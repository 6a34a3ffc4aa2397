#pragma once
// Memory that the system has already given when it is used first.

#include <cstddef>

namespace rigcast::engine {

/// Takes all pages of anonymous memory from the system, by several threads: clearing them is what
/// takes time. What they hold stays. `begin` begins a page.
void touch_pages(std::byte* begin, std::size_t bytes);

}  // namespace rigcast::engine
