// Sources and the headers of their names.

#include <algorithm>
#include <iterator>
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

struct Exception {
  const char* begins;  // of the path; a folder's, or a file's whole path
  const char* declared_in;
};
// Sources that have no header of their name, by kind, and where their functions are declared.
constexpr Exception kExceptions[] = {
    // Programs, and the verbs of one.
    {"tests/", "nowhere: test cases"},
    {"bench/", "nowhere, or a header of the bench"},
    {"cli/", "cli/verbs.hpp"},
    {"examples/embedding/main.cpp", "nowhere: somebody's program"},
    {"library/python/rigcast_module.cpp", "nowhere: Python calls it"},
    // Rows of a registry.
    {"engine/architectures/families/", "engine/architectures/families/families.hpp"},
    // The same functions, once for each instruction set.
    {"engine/kernels/cpu/int8/avx2.cpp", "engine/kernels/cpu/int8/targets.hpp"},
    {"engine/kernels/cpu/int8/avx512.cpp", "engine/kernels/cpu/int8/targets.hpp"},
    {"engine/kernels/cpu/int8/plain.cpp", "engine/kernels/cpu/int8/targets.hpp"},
    // What stands for GPU code in a build without it.
    {"engine/backends/cuda/stub/no_cuda.cpp", "the headers of engine/backends/cuda"},
    {"probe/without_cuda/no_gpus.cpp", "the headers of probe/gpu"},
};

bool is_excepted(const std::string& path) {
  return std::ranges::any_of(kExceptions,
                             [&](const Exception& e) { return path.rfind(e.begins, 0) == 0; });
}

bool has_own_header(const SourceFile& source, const std::set<std::string>& headers) {
  return std::ranges::any_of(own_headers(source.path),
                             [&](const std::string& header) { return headers.contains(header); });
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

TEST_CASE("A source has a header of its name", "[tidy]") {
  const std::set<std::string> all = headers();
  std::string out;
  std::set<std::string> needed;
  for (const SourceFile& f : files()) {
    if (!f.is_unit() || has_own_header(f, all)) continue;
    if (!is_excepted(f.path)) out += f.path + "\n";
    for (const Exception& e : kExceptions)
      if (f.path.rfind(e.begins, 0) == 0) needed.insert(e.begins);
  }
  INFO("where do these declare what they define?\n" << out);
  CHECK(out.empty());
  CHECK(needed.size() == std::size(kExceptions));  // none of them is out of date
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
