#include "engine/memory/account.hpp"

#include <thread>

#include "tests/catch.hpp"

using namespace rigcast;
using namespace rigcast::engine;

TEST_CASE("Shares are counted by what they are for, now and at most", "[engine][memory]") {
  const Account account(1_KiB);
  auto a = account.charge(600, "weights");
  auto b = account.charge(100, "KV cache");
  REQUIRE(a);
  REQUIRE(b);
  CHECK(a->bytes() == 600);
  CHECK(account.held() == 700_B);
  CHECK(account.free() == 324_B);
  CHECK_FALSE(account.charge(325, "weights"));
  CHECK(account.held() == 700_B);
  *a = Charge();
  CHECK(account.charge(1024 - 100, "weights"));  // and given back at once
  CHECK(account.held() == 100_B);
  CHECK(account.peak_held() == 1_KiB);
  REQUIRE(account.items().size() == 2);
  CHECK(account.items()[0].held == 0_B);
  CHECK(account.items()[0].most == 924_B);
  CHECK(account.largest_text() == "; taken: KV cache 100 B");
}

TEST_CASE("Without a limit all is counted, and shares outlive the account", "[engine][memory]") {
  Charge charge;
  {
    const Account account;
    charge = *account.charge(std::size_t(1) << 40, "weights");
    CHECK_FALSE(account.free());
    CHECK_FALSE(account.limit());
    CHECK(account.held() == Bytes{0x1p40});
    CHECK(account.charge(0, "nothing")->bytes() == 0);
    CHECK(account.items().size() == 1);
  }
  CHECK(charge.bytes() == std::size_t(1) << 40);
}

TEST_CASE("Threads that take and give back leave nothing", "[engine][memory]") {
  const Account account(1_MiB);
  const auto work = [&] {
    for (int i = 0; i < 2000; ++i) static_cast<void>(account.charge(1000, "activations"));
  };
  std::thread one(work), two(work);
  one.join();
  two.join();
  CHECK(account.held() == 0_B);
  CHECK(account.peak_held() <= 2000_B);
}
