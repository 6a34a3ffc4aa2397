// Idle units in waves of thread blocks, calculated by hand.

#include "perfmodel/blocks/wave_quantization.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace rigcast;

namespace {

OpTraffic one_product(std::uint64_t rows) {
  OpTraffic t;
  t.products[WeightGroup::kIn] = {rows, rows * 4096};
  return t;
}

}  // namespace

TEST_CASE("The last wave of blocks is seldom full", "[gpu]") {
  const BlockShape tiles{128, 128, 100};
  CHECK(wave_efficiency(one_product(12800), 128, tiles) == Approx(1.0));
  CHECK(wave_efficiency(one_product(6400), 128, tiles) == Approx(0.5));
  CHECK(wave_efficiency(one_product(12801), 128, tiles) == Approx(101.0 / 200));
  // Twice as many tokens are twice as many blocks; fewer than a block's are one.
  CHECK(wave_efficiency(one_product(6400), 256, tiles) == Approx(1.0));
  CHECK(wave_efficiency(one_product(6400), 3, tiles) == Approx(0.5));
}

TEST_CASE("Products count by their work", "[gpu]") {
  OpTraffic t = one_product(12800);  // all busy
  t.products[WeightGroup::kOut] = {1280, 3 * 12800 * 4096};
  // A quarter of the work takes its normal time, three quarters take ten times theirs.
  CHECK(wave_efficiency(t, 128, {128, 128, 100}) == Approx(1 / (0.25 + 0.75 * 10)));
}

TEST_CASE("Blocks grow as long as nearly all units have one", "[gpu]") {
  const BlockShape cut{32, 64, 100};
  CHECK(wave_efficiency_of_largest(one_product(25600), 64, cut) == Approx(1.0));   // of 256 rows
  CHECK(wave_efficiency_of_largest(one_product(20480), 64, cut) == Approx(0.8));   // 80 of them
  CHECK(wave_efficiency_of_largest(one_product(19200), 64, cut) == Approx(0.75));  // 150 of 128
  CHECK(wave_efficiency_of_largest(one_product(320), 64, cut) == Approx(0.1));
}

TEST_CASE("A token's product idles past its first wave", "[gpu]") {
  const BlockShape cut{32, 1, 100};
  CHECK(idle_of_one_token(one_product(3200), cut) == Approx(0));
  CHECK(idle_of_one_token(one_product(100), cut) == Approx(0));
  CHECK(idle_of_one_token(one_product(4000), cut) == Approx(6400.0 / 4000 - 1));
  CHECK(idle_of_one_token(one_product(4400), cut) == Approx(0));  // twice as many rows at once
  CHECK(idle_of_one_token(one_product(9600), cut) == Approx(12800.0 / 9600 - 1));
}

TEST_CASE("A fifth block of narrow weights does away with a token's second wave", "[gpu]") {
  const BlockShape cut{32, 1, 100};
  const auto idle = [&](std::uint64_t rows, QuantFormat format, bool several = false) {
    OpTraffic t = one_product(rows);
    t.products[WeightGroup::kIn].format = format;
    t.products[WeightGroup::kIn].several_formats = several;
    return idle_of_one_token(t, cut, 5.42);
  };
  const double second_wave = 6400.0 / 4000 - 1;
  CHECK(idle(4000, QuantFormat::kQ4_K) == Approx(0));
  CHECK(idle(4001, QuantFormat::kQ4_K) == Approx(6400.0 / 4001 - 1));  // more than five have
  CHECK(idle(4000, QuantFormat::kQ6_K) == Approx(second_wave));
  CHECK(idle(4000, QuantFormat::kQ4_K, true) == Approx(second_wave));
}

TEST_CASE("Two blocks of attention share a unit", "[gpu]") {
  CHECK(wave_efficiency_of_blocks(100, 100) == 1);  // cut smaller
  CHECK(wave_efficiency_of_blocks(101, 100) == Approx(101.0 / 200));
  CHECK(wave_efficiency_of_blocks(200, 100) == 1);
  CHECK(wave_efficiency_of_blocks(300, 100) == Approx(300.0 / 400));
  CHECK(wave_efficiency_of_blocks(300, 0) == 1);
}

TEST_CASE("Where units are not counted all are busy", "[gpu]") {
  CHECK(wave_efficiency(one_product(100), 1, {128, 128, 0}) == 1);
  CHECK(wave_efficiency_of_largest(one_product(100), 1, {128, 128, 0}) == 1);
  CHECK(idle_of_one_token(one_product(4000), {32, 1, 0}) == 0);
  CHECK(wave_efficiency({}, 64, {128, 128, 100}) == 1);  // of no known shape
}

TEST_CASE("Experts of more tokens than are multiplied at once take the columns of all parts",
          "[gpu]") {
  constexpr double kShare = 1.0 / 16, kMaxTokens = 1024, kHalf = 100, kMaxWidth = 64;
  const auto columns = [](double tokens) {
    return columns_of_parts(tokens, kShare, kMaxTokens, kHalf, kMaxWidth);
  };
  const auto of_mean = [](double mean) { return columns_of_groups(mean, kHalf, kMaxWidth); };
  CHECK(columns(512) == of_mean(32));
  CHECK(columns(1024) == of_mean(64));
  CHECK(columns(3072) == Approx(3 * of_mean(64)));
  CHECK(columns(1536) == Approx(of_mean(64) + of_mean(32)));
  // One token more chooses few of the experts.
  CHECK(columns(1025) == Approx(of_mean(64) + (1 - std::exp(-kShare)) * of_mean(kShare)));
}
