#pragma once
// What may stand next on a command line, from the tree of verbs and options itself.

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

namespace rigcast::cli {

struct Completion {
  std::string word;
  std::string help;  // one line, or empty
};

/// Ids of a listing of the catalogue: "gpus", "models", ...; none where it cannot be read.
using ListedIds = std::function<std::vector<std::string>(const std::string& listing)>;

/// Words that may take the place of the last of `words`, all after the program's name; it may be
/// empty. None: nothing is known of it, or it is the name of a file.
std::vector<Completion> completions(const CLI::App& app, std::vector<std::string> words,
                                    const ListedIds& ids);

/// The script of "bash", "zsh" or "fish" that asks `rigcast __complete`; empty: another shell.
std::string completion_script(const std::string& shell);

}  // namespace rigcast::cli
