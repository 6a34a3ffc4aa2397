// Hundreds of broken scenario files, the same ones in every run: each is a scenario or an error
// that says where, and nothing crashes. Run it under the sanitizers too.

#include <algorithm>
#include <cctype>
#include <random>
#include <string>
#include <vector>

#include "core/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;

namespace {

struct Seen {
  int scenarios = 0;
  int errors = 0;
  int syntax_errors = 0;
};

bool begins_with_place(const std::string& text) {
  if (text.rfind("s.toml:", 0) != 0) return false;
  std::size_t i = 7;
  for (int part = 0; part < 2; ++part) {
    const std::size_t begin = i;
    while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]))) ++i;
    if (i == begin || i >= text.size() || text[i] != ':') return false;
    ++i;
  }
  return true;
}

// Reads the text; says what it was if the outcome is not allowed.
void check(const std::string& text, Seen& seen) {
  const auto document = TomlDocument::parse(text, "s.toml");
  if (!document) {
    ++seen.syntax_errors;
    if (!begins_with_place(document.error().text()))
      FAIL("no place in \"" << document.error().text() << "\" for:\n" << text);
    return;
  }
  const auto scenario = make_scenario(*document, fixtures::catalogue());
  if (scenario) {
    ++seen.scenarios;
    if (scenario->model.layers < 1 || scenario->workload.context < 1)
      FAIL("a scenario without sense from:\n" << text);
    return;
  }
  ++seen.errors;
  if (scenario.error().message.empty() || !begins_with_place(scenario.error().text()))
    FAIL("no place in \"" << scenario.error().text() << "\" for:\n" << text);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t after = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back(text.substr(begin, after - begin));
    begin = after;
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return std::size_t(random_() % n); }

  std::string mutate(std::string text) {
    for (std::size_t times = 1 + below(2); times > 0 && !text.empty(); --times) once(text);
    return text;
  }

 private:
  void once(std::string& text) {
    const std::size_t at = below(text.size());
    const std::size_t length = std::min(1 + below(40), text.size() - at);
    switch (below(9)) {
      case 0: text[at] = char(text[at] ^ char(1u << below(8))); break;
      case 1: text[at] = char(below(256)); break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(at, text.substr(below(text.size()), length)); break;
      case 4: text.resize(at); break;
      case 5: text.insert(at, kPieces[below(kPieces.size())]); break;
      case 6: swap_lines(text); break;
      case 7: duplicate_line(text); break;
      default: replace_value(text); break;
    }
  }

  void swap_lines(std::string& text) {
    auto lines = lines_of(text);
    if (lines.size() < 2) return;
    std::swap(lines[below(lines.size())], lines[below(lines.size())]);
    text = joined(lines);
  }

  void duplicate_line(std::string& text) {
    auto lines = lines_of(text);
    if (lines.empty()) return;
    const std::string line = lines[below(lines.size())];
    lines.insert(lines.begin() + std::ptrdiff_t(below(lines.size())), line);
    text = joined(lines);
  }

  // Well-formed and wrong: these get past the parser.
  void replace_value(std::string& text) {
    auto lines = lines_of(text);
    if (lines.empty()) return;
    std::string& line = lines[below(lines.size())];
    const auto equals = line.find(" = ");
    if (equals == std::string::npos) return;
    line = line.substr(0, equals + 3) + kValues[below(kValues.size())] + "\n";
    text = joined(lines);
  }

  std::mt19937_64 random_;

 public:
  static const std::vector<std::string> kPieces;
  static const std::vector<std::string> kValues;
};

const std::vector<std::string> Mutator::kPieces = {"[",
                                                   "]",
                                                   "[[",
                                                   "]]",
                                                   "{",
                                                   "}",
                                                   "=",
                                                   "\"",
                                                   "'",
                                                   "\"\"\"",
                                                   "'''",
                                                   ".",
                                                   ",",
                                                   "#",
                                                   "\\",
                                                   "\\u0000",
                                                   "\\uD800",
                                                   "\n",
                                                   "\r",
                                                   "\r\n",
                                                   "\t",
                                                   std::string(1, '\0'),
                                                   "\xff",
                                                   "\xc0\x80",
                                                   "\xed\xa0\x80",
                                                   "\xf4\x90\x80\x80",
                                                   "\xef\xbb\xbf",
                                                   "\x7f",
                                                   "\x1b[31m",
                                                   "[rig]\n",
                                                   "[rig.gpu]\n",
                                                   "[[rig]]\n",
                                                   "rig = 1\n",
                                                   "1e999",
                                                   "nan",
                                                   "-inf",
                                                   "0x7fffffffffffffff",
                                                   "99999999999999999999",
                                                   "1979-05-27"};

const std::vector<std::string> Mutator::kValues = {
    "0",
    "1",
    "-1",
    "2",
    "9223372036854775807",
    "-9223372036854775808",
    "0.5",
    "1e308",
    "-1e308",
    "5e-324",
    "inf",
    "-inf",
    "nan",
    "true",
    "false",
    "''",
    "' '",
    "'x'",
    "\"\\u0000\"",
    "[]",
    "['']",
    "[[]]",
    "[1, 2]",
    "['a', 1]",
    "{}",
    "{value = 1}",
    "{value = '1 GiB'}",
    "{value = '1 GB/s', kind = 'spec', source = 's'}",
    "[{}]",
    "1979-05-27",
    "07:32:00",
    "'auto'",
    "'99999999999 GiB'",
    "'1e308 TiB'",
    "'-1 GiB'",
    "'nan GiB'",
    "'8xrtx-3090'",
    "'0xrtx-3090'",
    "'-1xrtx-3090'",
    "'99999999999xrtx-3090'",
    "'/etc/passwd'",
    "'../../x.toml'",
    "'%s%n%x'",
    "'2xddr4-2666:1e300GiB'",
    "'64xddr5-20000'",
    "'99999999999x16'"};

}  // namespace

TEST_CASE("A thousand mutated scenarios each give a scenario or an error with its place",
          "[fuzz]") {
  Seen seen;
  Mutator mutator(20260101);
  for (int i = 0; i < 1000; ++i) check(mutator.mutate(fixtures::kFullScenario), seen);
  CHECK(seen.scenarios + seen.errors + seen.syntax_errors == 1000);
  // The mutations reach every outcome.
  CHECK(seen.scenarios > 20);
  CHECK(seen.errors > 100);
  CHECK(seen.syntax_errors > 100);
}

TEST_CASE("Every key with every wrong value gives a scenario or an error with its place",
          "[fuzz]") {
  Seen seen;
  const auto lines = lines_of(fixtures::kFullScenario);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto equals = lines[i].find(" = ");
    if (equals == std::string::npos) continue;
    for (const std::string& value : Mutator::kValues) {
      auto changed = lines;
      changed[i] = lines[i].substr(0, equals + 3) + value + "\n";
      check(joined(changed), seen);
    }
  }
  CHECK(seen.errors > 500);
  CHECK(seen.scenarios > 0);
}

TEST_CASE("A scenario cut off at any byte gives a scenario or an error with its place", "[fuzz]") {
  Seen seen;
  const std::string& text = fixtures::kFullScenario;
  for (std::size_t n = 0; n < text.size(); n += 3) check(text.substr(0, n), seen);
  CHECK(seen.errors > 0);
  CHECK(seen.syntax_errors > 0);
}

TEST_CASE("Every pair of neighbouring lines can change places", "[fuzz]") {
  Seen seen;
  const auto lines = lines_of(fixtures::kFullScenario);
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    auto swapped = lines;
    std::swap(swapped[i], swapped[i + 1]);
    check(joined(swapped), seen);
  }
  CHECK(seen.scenarios > 5);
}

TEST_CASE("Ten thousand brackets, braces, dots and quotes are refused, not followed", "[fuzz]") {
  Seen seen;
  const auto many = [](const std::string& piece, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += piece;
    return out;
  };
  for (const int n : {1, 2, 100, 255, 256, 257, 1000, 10'000}) {
    for (const char* piece : {"[", "{", "[[", "{a=", "[{a=", "a.", "'a'.", "\"", "'", "(", "[[[{",
                              "=", "-", "1.", ","}) {
      const std::string deep = many(piece, n);
      check("[rig]\ngpu = " + deep, seen);
      check(deep, seen);
      check("[" + deep + "x]\n", seen);
      check(deep + "x = 1\n", seen);
    }
    check("x = " + many("[", n) + many("]", n) + "\n", seen);
    check("x = " + many("{a=", n) + "1" + many("}", n) + "\n", seen);
  }
  CHECK(seen.scenarios == 0);
  CHECK(seen.syntax_errors > 300);
}

TEST_CASE("Empty files, NULs, bad UTF-8 and other people's line ends are no crash", "[fuzz]") {
  Seen seen;
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string(1, '\0'), std::string(10'000, '\0'),
        std::string("\xef\xbb\xbf"), std::string("\xff\xfe[\0r\0", 6), std::string("\xc3"),
        std::string(100'000, 'a'), std::string(100'000, '\n') + "x",
        "# " + std::string(50'000, '.'), "\xef\xbb\xbf" + fixtures::kFullScenario,
        "x = \"" + std::string(100'000, 'y') + "\"\n"})
    check(text, seen);
  std::string windows;
  for (const char c : fixtures::kFullScenario) windows += c == '\n' ? "\r\n" : std::string(1, c);
  Seen with_line_ends;
  check(windows, with_line_ends);
  CHECK(with_line_ends.scenarios == 1);
}

TEST_CASE("Setting any key to anything gives a scenario or an error, never a crash", "[fuzz]") {
  const auto base = TomlDocument::parse(fixtures::kFullScenario, "s.toml");
  REQUIRE(base);
  int errors = 0;
  for (const char* key :
       {"rig.gpu", "rig", "model", "kv.threshold", "kv.policy.x", "workload.context",
        "rig.ram_bandwidth.value", "a.b.c", "placement.tensor_split", "runtime.name"}) {
    for (const std::string& value : Mutator::kValues) {
      TomlDocument document = base->clone();
      if (document.set(key, value, std::string("--set ") + key)) {
        ++errors;
        continue;
      }
      const auto scenario = make_scenario(document, fixtures::catalogue());
      if (scenario) continue;
      ++errors;
      CHECK_FALSE(scenario.error().text().empty());
    }
  }
  CHECK(errors > 100);
}
