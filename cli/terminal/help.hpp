#pragma once
// --help that fits the terminal.

#include <CLI/App.hpp>
#include <memory>

namespace rigcast::cli {

/// Descriptions of options and verbs are broken at spaces, in a column of their own.
std::shared_ptr<CLI::Formatter> help_of_width(int width);

}  // namespace rigcast::cli
