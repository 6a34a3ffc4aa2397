#include "core/files/gzip.hpp"

#include <fstream>

#include "tests/catch.hpp"
#include "tests/folder.hpp"

using namespace rigcast;

TEST_CASE("What was compressed is read back, and what was not as it is", "[files]") {
  const test::Folder folder;
  const auto read_back = [&](const std::string& bytes, std::size_t max) {
    std::ofstream(folder / "f", std::ios::binary) << bytes;
    return read_gzip(folder / "f", max);
  };
  for (const std::string& text : {std::string(), std::string("a"), std::string(300000, 'x')}) {
    CHECK(*read_back(gzip(text), 300000) == text);
    CHECK(*read_back(text, 300000) == text);
  }
  CHECK(gzip("the same") == gzip("the same"));
  CHECK_FALSE(read_back(gzip(std::string(1001, 'x')), 1000));
  CHECK_FALSE(read_gzip(folder / "nothing", 1000));
}
