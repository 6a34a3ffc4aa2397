// Documents name files, folders and flags that exist.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/tidy/source_tree.hpp"

using rigcast::tidy::files;
using rigcast::tidy::SourceFile;
namespace fs = std::filesystem;

namespace {

bool is_document(const SourceFile& file) {
  return file.ends_with(".md") && !file.is_in("scripts/templates");
}

std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    out.push_back((*it)[1]);
  return out;
}

// Paths from the root in `backticks`: those whose first part is a folder of the tree.
std::vector<std::string> paths_in(const std::string& line) {
  static const std::regex kQuoted("`([A-Za-z0-9_.][A-Za-z0-9_./*-]*/[A-Za-z0-9_./*-]*)`");
  std::vector<std::string> out;
  for (const std::string& path : matches(line, kQuoted))
    if (fs::is_directory(fs::path(rigcast::test::source_dir()) / path.substr(0, path.find('/'))))
      out.push_back(path);
  return out;
}

// "runtimes/NAME.toml" stands for any name.
bool has_placeholder(const std::string& path) {
  static const std::regex kPlaceholder("(^|[/.])[A-Z]{2,}([/.]|$)");
  return std::regex_search(path, kPlaceholder) && !path.ends_with(".md");
}

// A path without its ending stands for a header and its source; "*" for any characters.
bool exists(const std::string& path) {
  if (fs::exists(fs::path(rigcast::test::source_dir()) / path)) return true;
  const auto star = path.find('*');
  const std::string begin = star == std::string::npos ? path + "." : path.substr(0, star);
  return std::ranges::any_of(files(),
                             [&](const SourceFile& f) { return f.path.starts_with(begin); });
}

std::vector<std::string> flags_in(const std::string& line) {
  static const std::regex kFlag("(?:^|[\\s`(])(--[a-z][a-z0-9-]+)");
  return matches(line, kFlag);
}

// Flags that code and scripts of this repository define: words in quotes, or a shell's case.
const std::set<std::string>& known_flags() {
  static const std::set<std::string> known = [] {
    static const std::regex kDefined("(--[a-z][a-z0-9-]+)");
    std::set<std::string> out;
    for (const SourceFile& file : files()) {
      const bool is_code = (file.is_source() && !file.is_in("tests")) || file.is_in("scripts") ||
                           file.is_in("runtimes/options");
      if (!is_code) continue;
      for (const std::string& line : file.lines)
        for (const std::string& flag : matches(line, kDefined)) out.insert(flag);
    }
    return out;
  }();
  return known;
}

}  // namespace

TEST_CASE("Every path that a document names exists", "[tidy]") {
  int seen = 0;
  for (const SourceFile& file : files()) {
    if (!is_document(file)) continue;
    for (const std::string& line : file.lines)
      for (const std::string& path : paths_in(line)) {
        if (has_placeholder(path)) continue;
        ++seen;
        INFO(file.path << " names " << path);
        CHECK(exists(path));
      }
  }
  CHECK(seen > 100);
}

TEST_CASE("Every link of a document leads to a file", "[tidy]") {
  static const std::regex kLink("\\]\\(([^)#:]+)[)#]");
  for (const SourceFile& file : files()) {
    if (!is_document(file)) continue;
    for (const std::string& line : file.lines)
      for (const std::string& target : matches(line, kLink)) {
        INFO(file.path << " links to " << target);
        CHECK(
            fs::exists((fs::path(rigcast::test::source_dir()) / file.path).parent_path() / target));
      }
  }
}

TEST_CASE("Every flag that a document names is one of a program or script", "[tidy]") {
  // Flags of other programs.
  const std::set<std::string> theirs = {"--preset",  "--append-result", "--output-file",
                                        "--install", "--prefix",        "--rm",
                                        "--network", "--read-only"};
  for (const SourceFile& file : files()) {
    if (!is_document(file)) continue;
    for (const std::string& line : file.lines)
      for (const std::string& flag : flags_in(line)) {
        INFO(file.path << " names " << flag);
        CHECK((known_flags().contains(flag) || theirs.contains(flag)));
      }
  }
}

TEST_CASE("Paths and flags are found where documents name them", "[tidy]") {
  CHECK(paths_in("see `core/base/units.hpp` and `perfmodel/cost/roofline`, not `a/b`").size() == 2);
  CHECK(exists("perfmodel/cost/roofline"));
  CHECK(exists("tests/validation/fit*"));
  CHECK_FALSE(exists("perfmodel/cost/rooftop"));
  CHECK(has_placeholder("tests/validation/MACHINE.jsonl.gz"));
  CHECK_FALSE(has_placeholder("runtimes/README.md"));
  CHECK(flags_in("`--kv paged` and (--gpus)") == std::vector<std::string>{"--kv", "--gpus"});
  CHECK_FALSE(known_flags().contains("--no-such-flag"));
}
