#pragma once
// What detection reads: files below a folder, and what commands print. Tests give captured ones.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace rigcast::probe {

struct System {
  std::filesystem::path root = "/";
  /// Standard output of a program with its arguments; empty: it is not there, or failed.
  std::function<std::string(const std::vector<std::string>& words)> output;
};

/// This machine.
System this_system();

/// The first line of a file, without spaces around it; empty: there is none.
std::string first_line(const std::filesystem::path& file);
/// The value of the first line "key: value" of a text; empty: there is none.
std::string value_in(const std::string& text, const std::string& key);

}  // namespace rigcast::probe
