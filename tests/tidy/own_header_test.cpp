// Sources and the headers of their names.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/tidy/include.hpp"
#include "tests/tidy/source_tree.hpp"

using rigcast::tidy::files;
using rigcast::tidy::include_of;
using rigcast::tidy::SourceFile;

namespace {

// The names that a header of this source may have: "a/b.hpp", "a/b.cuh".
std::vector<std::string> own_headers(const std::string& source) {
  const std::string stem = source.substr(0, source.rfind('.'));
  return {stem + ".hpp", stem + ".cuh"};
}

std::string first_include(const SourceFile& file) {
  for (const std::string& line : file.lines)
    if (const auto include = include_of(line)) return include->path;
  return {};
}

std::set<std::string> headers() {
  std::set<std::string> out;
  for (const SourceFile& f : files())
    if (f.is_header()) out.insert(f.path);
  return out;
}

// Those of its own headers that the source does not include first.
std::vector<std::string> not_first(const SourceFile& source, const std::set<std::string>& headers) {
  std::vector<std::string> own = own_headers(source.path);
  const std::string first = first_include(source);
  std::erase_if(own, [&](const std::string& header) {
    return !headers.contains(header) || header == first;
  });
  return own;
}

}  // namespace

// So every such header compiles alone, and the build compiles only the others once more
// (rigcast_check_headers in cmake/RigcastTargets.cmake).
TEST_CASE("A source includes the header of its name first", "[tidy]") {
  const std::set<std::string> all = headers();
  std::string out;
  for (const SourceFile& f : files())
    if (f.is_unit())
      for (const std::string& header : not_first(f, all)) out += f.path + ": " + header + "\n";
  INFO("included later, or not at all:\n" << out);
  CHECK(out.empty());
}

TEST_CASE("A header of a source's name that is not included first is found", "[tidy]") {
  const std::set<std::string> all = {"a/b.hpp", "a/c.hpp", "a/d.cuh", "a/f.hpp", "a/f.cuh"};
  const auto found = [&](const char* path, std::vector<std::string> lines) {
    return not_first({path, std::move(lines)}, all).size();
  };
  CHECK(found("a/b.cpp", {"// what", "#include \"a/b.hpp\"", "#include <vector>"}) == 0);
  CHECK(found("a/b.cpp", {"#include <vector>", "#include \"a/b.hpp\""}) == 1);
  CHECK(found("a/b.cpp", {}) == 1);
  CHECK(found("a/d.cu", {"#include \"a/d.cuh\""}) == 0);
  CHECK(found("a/e.cpp", {"#include \"a/b.hpp\""}) == 0);
  CHECK(found("a/f.cu", {"#include \"a/f.cuh\"", "#include \"a/f.hpp\""}) == 1);
}
