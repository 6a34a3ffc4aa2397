#pragma once
// Manual pages, from the tree of verbs and options itself.

#include <CLI/App.hpp>
#include <string>

namespace rigcast::cli {

/// The page of `verb`, or of the program where that is null, in mdoc: section 1.
std::string man_page(const CLI::App& app, const CLI::App* verb);

}  // namespace rigcast::cli
