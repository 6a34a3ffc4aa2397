// Identifiers and file names that banned_words.txt lists.

#include <cctype>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/tidy/source_tree.hpp"

using rigcast::tidy::files;
using rigcast::tidy::SourceFile;

namespace {

struct BannedWords {
  std::map<std::string, std::string> names;                     // and the field's word
  std::vector<std::pair<std::string, std::string>> beginnings;  // the same

  std::optional<std::string> instead_of(const std::string& identifier) const {
    if (const auto it = names.find(identifier); it != names.end()) return it->second;
    for (const auto& [beginning, word] : beginnings)
      if (identifier.rfind(beginning, 0) == 0) return word;
    return std::nullopt;
  }
};

BannedWords read_words(const std::string& text) {
  BannedWords words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    const auto end = line.find(' ');
    const std::string name = line.substr(0, end);
    const std::string word = line.substr(line.find_first_not_of(' ', end));
    if (name.back() == '*')
      words.beginnings.emplace_back(name.substr(0, name.size() - 1), word);
    else
      words.names[name] = word;
  }
  return words;
}

bool is_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Identifiers outside of strings and comments.
std::vector<std::string> identifiers(const std::string& line) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < line.size();) {
    if (line.compare(i, 2, "//") == 0) break;
    if (line[i] == '"') {
      for (++i; i < line.size() && line[i] != '"'; ++i)
        if (line[i] == '\\') ++i;
      ++i;
    } else if (is_part(line[i])) {
      const std::size_t begin = i;
      while (i < line.size() && is_part(line[i])) ++i;
      if (!std::isdigit(static_cast<unsigned char>(line[begin])))
        out.push_back(line.substr(begin, i - begin));
    } else {
      ++i;
    }
  }
  return out;
}

// The name of a file without its folder, its ending and "_test".
std::string stem(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  name = name.substr(0, name.find('.'));
  if (name.ends_with("_test")) name.resize(name.size() - 5);
  return name;
}

std::string violations(const SourceFile& file, const BannedWords& words) {
  std::string out;
  if (const auto word = words.instead_of(stem(file.path)))
    out += file.path + ": the file's name: " + *word + "\n";
  for (std::size_t i = 0; i < file.lines.size(); ++i)
    for (const std::string& identifier : identifiers(file.lines[i]))
      if (const auto word = words.instead_of(identifier))
        out += file.path + ":" + std::to_string(i + 1) + ": " + identifier + ": " + *word + "\n";
  return out;
}

}  // namespace

TEST_CASE("No identifier and no file has a name that the field has a better word for", "[tidy]") {
  const BannedWords words = read_words(rigcast::tidy::read(
      std::string(rigcast::test::source_dir()) + "/tests/tidy/banned_words.txt"));
  REQUIRE(words.names.size() > 10);
  std::string out;
  for (const SourceFile& file : files())
    if (file.is_source()) out += violations(file, words);
  INFO(out);
  CHECK(out.empty());
}

TEST_CASE("Banned words are found in code, not in comments and strings", "[tidy]") {
  const BannedWords words = read_words("# a comment\nold new\nkMost* kMax\n");
  const auto found = [&](const std::string& line) { return violations({"a.cpp", {line}}, words); };
  CHECK(found("int old = 1;") == "a.cpp:1: old: new\n");
  CHECK(found("constexpr int kMostRows = 1;") == "a.cpp:1: kMostRows: kMax\n");
  CHECK(found("int older = 1, bold = 2;  // old").empty());
  CHECK(found("f(\"old \\\" old\");").empty());
  CHECK(violations({"core/old_test.cpp", {}}, words) ==
        "core/old_test.cpp: the file's name: new\n");
  CHECK(violations({"core/older.cpp", {}}, words).empty());
}
