#include "core/base/error.hpp"

#include <memory>
#include <string>

#include "tests/catch.hpp"

using namespace rigcast;

TEST_CASE("An error shows where, what, and below it what to do", "[error]") {
  const Error e = bad_input("expected a rate", "write 64 GB/s", SourceRef{"my-rig.toml", 14, 13});
  CHECK(e.text() == "my-rig.toml:14:13: expected a rate\n  write 64 GB/s");
  CHECK(e.kind == ErrorKind::kBadInput);
}

TEST_CASE("An error without place or hint is its message alone", "[error]") {
  CHECK(bad_input("no").text() == "no");
  CHECK(bad_input("no", "try").text() == "no\n  try");
}

TEST_CASE("An option has no line and column", "[error]") {
  CHECK(bad_input("no", "", SourceRef{"--set kv.threshold"}).text() == "--set kv.threshold: no");
}

TEST_CASE("A result holds its value or its error", "[error]") {
  const Result<int> good = 7;
  const Result<int> bad = bad_input("not a number");
  CHECK(good.ok());
  CHECK(*good == 7);
  CHECK_FALSE(bad);
  CHECK(bad.error().message == "not a number");
}

TEST_CASE("A result of a text is not confused with its error", "[error]") {
  const Result<std::string> text = std::string("fine");
  REQUIRE(text);
  CHECK(text->size() == 4);
}

TEST_CASE("A value that can only be moved comes out of a result", "[error]") {
  Result<std::unique_ptr<int>> held = std::make_unique<int>(3);
  const std::unique_ptr<int> taken = *std::move(held);
  REQUIRE(taken);
  CHECK(*taken == 3);
}

TEST_CASE("A machine error is an exception with its words", "[error]") {
  try {
    throw MachineError("cannot read the device");
  } catch (const std::runtime_error& e) {
    CHECK(std::string(e.what()) == "cannot read the device");
  }
}
