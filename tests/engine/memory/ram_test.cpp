#include "engine/memory/ram.hpp"

#include <new>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "engine/kv/kv_cache.hpp"
#include "tests/catch.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

std::string text_of_failed_take(const Ram& ram, std::size_t bytes, const std::string& item) {
  try {
    static_cast<void>(ram.charge(bytes, item));
  } catch (const ShortOfMemory& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("What is taken of the host's memory is counted by what it is for", "[engine][memory]") {
  const Ram ram(1_MiB);
  RamCharge weights = ram.charge(1000, "weights");
  const RamCharge cache = ram.charge(4096, "KV cache");
  const RamCharge more = ram.charge(24, "weights");
  const RamCharge nothing = ram.charge(0, "buffers");
  REQUIRE(ram.items().size() == 2);
  CHECK(ram.items()[0].name == "weights");
  CHECK(ram.items()[0].held == 1024_B);
  CHECK(ram.items()[1].held == 4096_B);
  CHECK(ram.held() == 5120_B);
  RamCharge moved = std::move(weights);
  weights = RamCharge();
  CHECK(ram.held() == 5120_B);
  moved = RamCharge();
  CHECK(ram.items()[0].held == 24_B);
  CHECK(ram.items()[0].most == 1024_B);
  CHECK(ram.held() == 4120_B);
}

TEST_CASE("A limit is kept to the byte, and says who holds what", "[engine][memory]") {
  const Ram ram(3_GiB);
  const RamCharge weights = ram.charge(std::size_t(2) << 30, "weights");
  {
    const RamCharge cache = ram.charge(std::size_t(1) << 30, "KV cache");
    CHECK(text_of_failed_take(ram, 1, "KV cache") ==
          "memory: 1 B asked for the KV cache, 0 B free of a limit of 3.00 GiB; taken: weights "
          "2.00 GiB, KV cache 1.00 GiB");
  }
  CHECK(text_of_failed_take(ram, (std::size_t(1) << 30) + 1, "activations") ==
        "memory: 1.00 GiB asked for the activations, 1.00 GiB free of a limit of 3.00 GiB; taken: "
        "weights 2.00 GiB");
  CHECK(ram.held() == 2_GiB);
  const RamCharge again = ram.charge(std::size_t(1) << 30, "KV cache");
  CHECK(again.bytes() == std::size_t(1) << 30);
}

TEST_CASE("Without a limit all is counted and nothing refused", "[engine][memory]") {
  const Ram ram;
  const RamCharge all = ram.charge(std::size_t(1) << 60, "weights");
  CHECK(ram.held() == Bytes{0x1p60});
  CHECK(!ram.limit());
}

TEST_CASE("Counted memory is given back with its last owner, and after the account's end",
          "[engine][memory]") {
  std::shared_ptr<std::byte> longest;
  {
    const Ram ram(1_MiB);
    const auto make = ram.tracked("KV cache", make_large_pages);
    auto one = make(1 << 19);
    const auto same = one;
    one.reset();
    CHECK(ram.held() == 512_KiB);
    same.get()[(1 << 19) - 1] = std::byte{7};
    CHECK_THROWS_AS(make((1 << 19) + 1), ShortOfMemory);
    longest = make(1 << 19);
    CHECK(ram.held() == 1_MiB);
  }
  longest.get()[0] = std::byte{1};
}

TEST_CASE("Memory that cannot be made is not counted", "[engine][memory]") {
  const Ram ram(1_MiB);
  const auto make = ram.tracked(
      "KV cache", [](std::size_t) -> std::shared_ptr<std::byte> { throw std::bad_alloc(); });
  CHECK_THROWS_AS(make(100), std::bad_alloc);
  CHECK(ram.held() == 0_B);
}
