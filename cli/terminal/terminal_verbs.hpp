#pragma once
// Verbs for shells and for readers of manuals, made of the tree of verbs and options.

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

#include "core/catalogue/catalogue.hpp"

namespace rigcast::cli {

/// Both refer to `app` when they run, in which all other verbs are by then.
void add_completion(CLI::App& app, std::function<int()>& run);
void add_man(CLI::App& app, std::function<int()>& run);

/// The first word of what a shell asks; the rest are the words of a command line, none of them
/// checked. Prints "word TAB help", a line each.
constexpr const char* kCompleteVerb = "__complete";
int print_completions(const CLI::App& app, const std::vector<std::string>& words,
                      const std::function<Result<Catalogue>()>& open);

}  // namespace rigcast::cli
