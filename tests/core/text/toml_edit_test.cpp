// Values replaced in a text by hand.
#include "core/text/toml_edit.hpp"

#include <vector>

#include "tests/catch.hpp"

using namespace rigcast;

TEST_CASE("Other values leave comments, order and spaces as they are", "[toml]") {
  const std::string text =
      "# first\na = 1 # tail\nlist = [\n  \"x\",\n]\n\n[t.u]\n"
      "c-d = { value = \"3 us\", source = \"\u00e4, #\" } # tail\ne=2\n";
  const std::vector<TomlEdit> edits = {
      {"list", "[]"}, {"a", "22"}, {"t.u.c-d", "{ value = 5 }"}, {"t.u.e", "\"e\""}};
  const auto out = with_values(text, edits);
  REQUIRE(out);
  CHECK(*out ==
        "# first\na = 22 # tail\nlist = []\n\n[t.u]\nc-d = { value = 5 } # tail\ne=\"e\"\n");
}

TEST_CASE("A key of the root that is not there is put first, one of a table is refused", "[toml]") {
  const auto out = with_values("a = 1\n[t]\nb = 2\n", std::vector<TomlEdit>{{"new", "[3]"}});
  REQUIRE(out);
  CHECK(*out == "new = [3]\na = 1\n[t]\nb = 2\n");
  CHECK_FALSE(with_values("[t]\nb = 2\n", std::vector<TomlEdit>{{"t.c", "3"}}));
  CHECK_FALSE(with_values("a = \n", std::vector<TomlEdit>{{"a", "3"}}));
}
