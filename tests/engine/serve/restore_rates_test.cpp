#include "engine/serve/restore_rates.hpp"

#include <vector>

#include "tests/catch.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr KvTier kRam = KvTier::kHost, kDisk = KvTier::kDisk;

// Of blocks of 1,000 bytes and 10 tokens, where prompts take 100 tokens/s: 0.1 s a block.
std::size_t worth(double ram, double disk, const std::vector<KvTier>& blocks,
                  KvRestore rule = KvRestore::kAuto) {
  const RestoreRates rates = RestoreRates::fixed(BytesPerSecond{ram}, BytesPerSecond{disk}, 100);
  return rates.worth_restoring(blocks, Bytes{1000}, 10, rule);
}

}  // namespace

TEST_CASE("What is faster is done: restoring, or computing anew") {
  const std::vector<KvTier> disk(4, kDisk), ram(4, kRam);
  CHECK(worth(1e9, 10'100, disk) == 4);  // 0.099 s a block
  CHECK(worth(1e9, 9'900, disk) == 0);
  CHECK(worth(1e9, 1, ram) == 4);
  CHECK(worth(5'000, 1e9, ram) == 0);
  CHECK(worth(1e9, 1, disk, KvRestore::kAlways) == 4);
  CHECK(worth(1e9, 1e9, disk, KvRestore::kRecompute) == 0);
  CHECK(worth(1e9, 1e9, {}) == 0);
}

TEST_CASE("A slow block is restored for those behind it, and left out at the end") {
  // From disk 0.15 s a block, which costs 0.05 s; from RAM next to nothing, which saves 0.1 s.
  constexpr double kSlow = 1000 / 0.15;
  CHECK(worth(1e9, kSlow, {kDisk, kRam}) == 2);
  CHECK(worth(1e9, kSlow, {kRam, kDisk}) == 1);
  CHECK(worth(1e9, kSlow, {kDisk, kDisk, kDisk, kRam}) == 0);
  CHECK(worth(1e9, kSlow, {kRam, kDisk, kDisk, kDisk, kRam}) == 1);
  CHECK(worth(1e9, kSlow, {kRam, kDisk, kRam, kDisk}) == 3);
}

TEST_CASE("Rates follow what is measured") {
  RestoreRates rates;
  const std::vector<KvTier> blocks(2, kDisk);
  const auto decided = [&] {
    return rates.worth_restoring(blocks, Bytes{1000}, 10, KvRestore::kAuto);
  };
  CHECK_FALSE(rates.copy_rate(kDisk));
  CHECK_FALSE(rates.tokens_per_s());
  CHECK(decided() == 2);  // nothing is known
  rates.computed(100, Seconds{1});
  CHECK(decided() == 2);
  rates.copied(kDisk, Bytes{1000}, Seconds{1});
  CHECK(rates.copy_rate(kDisk)->value == 1000);
  CHECK(decided() == 0);
  // The disk becomes faster: 40 copies later nothing is left of the first one.
  for (int i = 0; i < 40; ++i) rates.copied(kDisk, Bytes{1e6}, Seconds{1});
  CHECK(rates.copy_rate(kDisk)->value > 0.98e6);
  CHECK(decided() == 2);
}
