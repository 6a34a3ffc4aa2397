#pragma once
// How wide a text may be that is as wide as its figures elsewhere.

#include <cstddef>

#include "cli/shared/output.hpp"

namespace rigcast::cli {

/// Columns of the terminal that gets the text; 0: it goes elsewhere, and lines stay as they are.
std::size_t terminal_width(const OutputOptions& output);

}  // namespace rigcast::cli
