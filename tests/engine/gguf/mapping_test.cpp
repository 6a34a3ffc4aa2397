#include "engine/gguf/mapping.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using namespace rigcast::engine;

TEST_CASE("It is known which file is mapped at an address, while it is", "[gguf]") {
  const test::Folder folder;
  const std::string one = folder.write("one", std::string(10'000, '1')),
                    two = folder.write("two", std::string(100, '2'));
  auto first = Mapping::open(one);
  auto second = Mapping::open(two);
  REQUIRE(first);
  REQUIRE(second);
  const auto named = [](const std::byte* at) {
    const char* const file = mapped_file(at);
    return std::string(file ? file : "none");
  };
  const auto bytes = first->bytes();
  CHECK(named(bytes.data()) == one);
  CHECK(named(bytes.data() + 9'999) == one);
  CHECK(named(bytes.data() + 10'000) != one);
  CHECK(named(second->bytes().data() + 50) == two);
  CHECK(named(nullptr) == "none");
  CHECK(named(reinterpret_cast<const std::byte*>(&folder)) == "none");
  {
    const Mapping moved = *std::move(first);
    CHECK(named(bytes.data()) == one);
  }
  CHECK(named(bytes.data()) != one);
}

TEST_CASE("More files may be mapped than are listed", "[gguf]") {
  const test::Folder folder;
  const std::string file = folder.write("x", "x");
  std::vector<Mapping> all;
  for (int i = 0; i < 300; ++i) {
    auto one = Mapping::open(file);
    REQUIRE(one);
    all.push_back(*std::move(one));
  }
  CHECK(mapped_file(all.front().bytes().data()) != nullptr);
  CHECK(mapped_file(all.back().bytes().data()) == nullptr);
  all.clear();
  const auto again = Mapping::open(file);
  CHECK(mapped_file(again->bytes().data()) != nullptr);
}
