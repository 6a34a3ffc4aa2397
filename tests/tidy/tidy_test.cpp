// The house rules that a program can check.

#include <cctype>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/tidy/source_tree.hpp"

using rigcast::tidy::files;
using rigcast::tidy::SourceFile;

namespace {

constexpr std::size_t kMaxWidth = 100;
constexpr std::size_t kMaxLength = 600;

std::string at(const SourceFile& file, std::size_t line) {
  return file.path + ":" + std::to_string(line + 1) + "\n";
}

// Characters, not bytes: continuation bytes of UTF-8 do not count.
std::size_t width(const std::string& line) {
  return std::size_t(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// Lines of files that `picks` which `breaks` the rule, one a line.
template <class Picks, class Breaks>
std::string broken(Picks picks, Breaks breaks) {
  std::string out;
  for (const SourceFile& file : files()) {
    if (!picks(file)) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i)
      if (breaks(file.lines[i])) out += at(file, i);
  }
  return out;
}

bool is_code(const SourceFile& f) { return f.is_source() || f.is_build_file() || f.is_web(); }

}  // namespace

TEST_CASE("The tree that is checked is the repository", "[tidy]") {
  std::size_t sources = 0, parts = 0;  // parts: included by several units, once for each
  for (const SourceFile& f : files()) {
    sources += f.is_source();
    parts += f.is_source() && f.ends_with(".inc");
  }
  CHECK(sources > 50);
  // Folders of ours that are named as one beside the repository is.
  const auto has = [](const char* path) {
    return std::ranges::find(files(), path, &SourceFile::path) != files().end();
  };
  CHECK(has("cli/shared/output.cpp"));
  CHECK(parts > 5);
}

TEST_CASE("Every header is included once", "[tidy]") {
  std::string out;
  for (const SourceFile& f : files()) {
    if (!f.is_header()) continue;
    const bool guarded = std::ranges::find(f.lines, "#pragma once") != f.lines.end();
    if (!guarded) out += f.path + "\n";
  }
  INFO("headers without #pragma once:\n" << out);
  CHECK(out.empty());
}

TEST_CASE("No line of code is wider than 100 columns", "[tidy]") {
  const std::string out =
      broken(is_code, [](const std::string& line) { return width(line) > kMaxWidth; });
  INFO("too wide:\n" << out);
  CHECK(out.empty());
}

TEST_CASE("No source file is longer than 600 lines", "[tidy]") {
  std::string out;
  for (const SourceFile& f : files())
    if ((f.is_source() || f.is_web()) && f.lines.size() > kMaxLength)
      out += f.path + ": " + std::to_string(f.lines.size()) + " lines\n";
  INFO("too long:\n" << out);
  CHECK(out.empty());
}

TEST_CASE("Public headers need no CUDA, so that everything builds without it", "[tidy]") {
  const std::string out =
      broken([](const SourceFile& f) { return f.ends_with(".hpp"); },
             [](const std::string& line) {
               return line.rfind("#include", 0) == 0 && (line.find("<cu") != std::string::npos ||
                                                         line.find(".cuh\"") != std::string::npos);
             });
  INFO("includes of CUDA in headers other than .cuh:\n" << out);
  CHECK(out.empty());
}

TEST_CASE("What is fuzzed is code that clang 14 takes too", "[tidy]") {
  // With libstdc++ 12 it refuses pipelines of views; Debian 12 has no other for scripts/fuzz.sh.
  const std::string out = broken(
      [](const SourceFile& f) {
        return f.is_in("core") || f.is_in("engine") || f.is_in("planner") || f.is_in("cli");
      },
      [](const std::string& line) { return line.find("std::views::") != std::string::npos; });
  INFO("views:\n" << out);
  CHECK(out.empty());
}

TEST_CASE("No tabs, no carriage returns, no blanks at the end of a line", "[tidy]") {
  const std::string out = broken(is_code, [](const std::string& line) {
    return line.find('\t') != std::string::npos || line.find('\r') != std::string::npos ||
           (!line.empty() && line.back() == ' ');
  });
  INFO("untidy:\n" << out);
  CHECK(out.empty());
}

TEST_CASE("No file names a folder of somebody's machine", "[tidy]") {
  // Spelt in pieces, so that this file is clean too.
  const std::vector<std::string> roots = {std::string("/ho") + "me/", std::string("/ro") + "ot/",
                                          std::string("/wo") + "rk/", std::string("/Use") + "rs/"};
  const auto names_one = [&](const std::string& line) {
    for (const std::string& root : roots) {
      for (auto i = line.find(root); i != std::string::npos; i = line.find(root, i + 1)) {
        // "framework/" and addresses on the web are no folders.
        const bool begins =
            i == 0 || !(std::isalnum(static_cast<unsigned char>(line[i - 1])) ||
                        std::string("._-/~").find(line[i - 1]) != std::string::npos);
        if (begins) return true;
      }
    }
    return false;
  };
  const std::string out = broken([](const SourceFile&) { return true; }, names_one);
  INFO("paths of a machine:\n" << out);
  CHECK(out.empty());
}

TEST_CASE("Every data file names its source", "[tidy]") {
  std::string out;
  std::size_t data = 0;
  for (const SourceFile& f : files()) {
    if (!f.ends_with(".toml")) continue;
    if (!f.is_in("hwprofiles") && !f.is_in("models") && !f.is_in("runtimes") && !f.is_in("loads"))
      continue;
    ++data;
    // A fit's figures name their source one by one: its plain keys belong to the profile under it.
    if (f.is_in("runtimes/fitted")) {
      const bool every = std::ranges::all_of(f.lines, [](const std::string& line) {
        return line.find("value = ") == std::string::npos ||
               line.find("source = \"") != std::string::npos;
      });
      if (!every) out += f.path + "\n";
      continue;
    }
    const bool sourced = std::ranges::any_of(f.lines, [](const std::string& line) {
      return line.rfind("source = \"", 0) == 0 && line.size() > 18;
    });
    if (!sourced) out += f.path + "\n";
  }
  CHECK(data > 100);
  INFO("data without a source:\n" << out);
  CHECK(out.empty());
}

TEST_CASE("Library code prints nothing and ends nothing", "[tidy]") {
  const std::string out = broken(
      [](const SourceFile& f) {
        return f.is_source() && (f.is_in("core") || f.is_in("sim") || f.is_in("planner"));
      },
      [](const std::string& line) {
        for (const char* call : {"std::cout", "std::cerr", "std::printf(", "fmt::print(",
                                 "std::exit(", "using namespace std;"})
          if (line.find(call) != std::string::npos) return true;
        return false;
      });
  INFO("prints or ends:\n" << out);
  CHECK(out.empty());
}
