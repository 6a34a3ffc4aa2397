#include "core/runtime/kv_disk.hpp"

#include <string>

#include "tests/catch.hpp"

using namespace rigcast;

TEST_CASE("A folder on disk has a size, or the usual one") {
  const auto read = [](const char* text) {
    const auto disk = parse_kv_disk(text);
    REQUIRE(disk.ok());
    return *disk;
  };
  CHECK(read("/mnt/nvme:200GiB").folder == "/mnt/nvme");
  CHECK(read("/mnt/nvme:200GiB").size == 200_GiB);
  CHECK(read("/mnt/nvme").size == 32_GiB);
  CHECK(read(".").folder == ".");
  CHECK(read("/mnt/a:b").folder == "/mnt/a:b");
  CHECK(read("/mnt/a:b:1 GB").folder == "/mnt/a:b");
  CHECK(read("/mnt/a:b:1 GB").size == Bytes{1e9});
  for (const char* text : {"", ":1GiB", "/mnt:1", "/mnt:0GiB", "/mnt:4 apples", "/mnt:1e30TiB"}) {
    CAPTURE(text);
    const auto disk = parse_kv_disk(text);
    REQUIRE_FALSE(disk.ok());
    CHECK(disk.error().message.find(std::string("\"") + text + "\"") != std::string::npos);
    CHECK(disk.error().hint.find("DIR:SIZE") != std::string::npos);
  }
}
