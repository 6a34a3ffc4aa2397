// Comma-separated values, as RFC 4180 has them and as spreadsheets write them.

#include <string>
#include <vector>

#include "core/text/csv.hpp"
#include "core/text/csv_quote.hpp"
#include "tests/catch.hpp"

using namespace rigcast;

namespace {

std::vector<std::vector<std::string>> fields(const std::string& text) {
  const auto rows = parse_csv(text, "t.csv");
  INFO(text);
  if (!rows) FAIL(rows.error().text());
  std::vector<std::vector<std::string>> out;
  for (const CsvRow& row : *rows) {
    out.emplace_back();
    for (const CsvField& field : row) out.back().push_back(field.text);
  }
  return out;
}

using Rows = std::vector<std::vector<std::string>>;

}  // namespace

TEST_CASE("Rows end in LF, in CRLF or with the file", "[csv]") {
  const Rows expected = {{"a", "b"}, {"1", "2"}};
  CHECK(fields("a,b\n1,2\n") == expected);
  CHECK(fields("a,b\r\n1,2\r\n") == expected);
  CHECK(fields("a,b\n1,2") == expected);
  CHECK(fields("\xef\xbb\xbf"
               "a,b\n\n1,2\n\n") == expected);
  CHECK(fields("").empty());
  CHECK(fields("\n\r\n").empty());
}

TEST_CASE("A quoted field holds commas, quotes and lines", "[csv]") {
  CHECK(fields("\"a,b\",\"say \"\"so\"\"\"\n\"1\n2\",\n") ==
        Rows{{"a,b", "say \"so\""}, {"1\n2", ""}});
  CHECK(fields("\"\"\n,\n") == Rows{{"", ""}});
  CHECK(fields("a b\"c\n") == Rows{{"a b\"c"}});
}

TEST_CASE("A field knows where it began", "[csv]") {
  const auto rows = parse_csv("a,\"b\nb\",c\nd,e,f\n", "t.csv");
  REQUIRE(rows);
  CHECK((*rows)[0][1].line == 1);
  CHECK((*rows)[0][1].column == 3);
  CHECK((*rows)[1][2].line == 3);
  CHECK((*rows)[1][2].column == 5);
}

TEST_CASE("A broken quote is refused where it is", "[csv]") {
  const auto open = parse_csv("a,b\n1,\"2\n3", "t.csv");
  REQUIRE_FALSE(open);
  CHECK(open.error().text().rfind("t.csv:2:3: a quote that is not closed", 0) == 0);
  const auto beside = parse_csv("a,\"b\"c\n", "t.csv");
  REQUIRE_FALSE(beside);
  CHECK(beside.error().text().rfind("t.csv:1:6: text after", 0) == 0);
}

TEST_CASE("What is quoted for a table is read back as it was", "[csv]") {
  CHECK(csv_quote("RTX 3090") == "RTX 3090");
  CHECK(csv_quote("a \"b\", c") == "\"a \"\"b\"\", c\"");
  const Rows texts = {{"", "a", "a,b", "say \"a\"", "two\nlines", "two\r\nlines", " a "}};
  std::string line;
  for (const std::string& text : texts[0]) line += csv_quote(text) + ",";
  Rows expected = texts;
  expected[0].emplace_back("end");
  CHECK(fields(line + "end\n") == expected);
}
