#include "engine/runtime/load.hpp"

#include <fstream>
#include <string>

#include "tests/catch.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using namespace rigcast::engine;

TEST_CASE("A file is brought into the page cache to its last byte", "[engine][load]") {
  const test::Folder folder;
  const std::string file = folder.write("x", std::string((9 << 20) + 5, 'x'));
  REQUIRE_FALSE(drop_from_page_cache(file));
  REQUIRE_FALSE(bring_into_page_cache(file));
  const auto cached = cached_bytes(file);
  REQUIRE(cached);
  CHECK(*cached == (9 << 20) + 5);
}

TEST_CASE("What is not there is brought nowhere", "[engine][load]") {
  const test::Folder folder;
  const auto error = bring_into_page_cache(folder / "none");
  REQUIRE(error);
  CHECK(error->kind == ErrorKind::kMachine);
  CHECK(bring_into_page_cache(folder.path()));
}
