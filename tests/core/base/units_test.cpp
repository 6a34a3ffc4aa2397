#include "core/base/units.hpp"

#include <type_traits>

#include "tests/catch.hpp"

using namespace rigcast;

// Code that the types reject is in tests/compile_fail; results are checked while this compiles.
static_assert(std::is_same_v<decltype(1_GB / 1_GBps), Seconds>);
static_assert(std::is_same_v<decltype(1_GB / 1_s), BytesPerSecond>);
static_assert(std::is_same_v<decltype(1_GBps * 1_s), Bytes>);
static_assert(std::is_same_v<decltype(Flops{1} / 1_TFLOPs), Seconds>);
static_assert(std::is_same_v<decltype(1_GB / 1_GB), double>);
static_assert(!std::is_convertible_v<double, Bytes> && !std::is_convertible_v<Bytes, double>);
static_assert(1_KiB == 1024_B && 1_MiB == 1024.0 * 1_KiB && 1_GiB == 1024.0 * 1_MiB);
static_assert(1_GB == 1000.0 * 1_MB && 1_GBps == 1000.0 * 1_MBps);

TEST_CASE("Half of 50 GB at 25 GB/s takes one second", "[units]") {
  CHECK((50_GB / 2.0 / 25_GBps).value == 1.0);
}

TEST_CASE("A rate is what carries its bytes in its time", "[units]") {
  const BytesPerSecond rate = 12_GB / 4_s;
  CHECK(rate == 3_GBps);
  CHECK(rate * 4_s == 12_GB);
  CHECK(12_GB / rate == 4_s);
}

TEST_CASE("51 TFLOP at 25.5 TFLOP/s take two seconds, and the rate follows back", "[units]") {
  const Flops work{51e12};
  const FlopsPerSecond rate{25.5e12};
  CHECK(work / rate == 2_s);
  CHECK(work / 2_s == rate);
}

TEST_CASE("Sums, differences and multiples keep the unit", "[units]") {
  Bytes b = 3_GB + 2_GB - 1_GB;
  CHECK(b == 4_GB);
  b += 1_GB;
  b -= 2_GB;
  b *= 2.0;
  CHECK(b == 6_GB);
  CHECK(-b + b == 0_B);
  CHECK(0.5 * b == b / 2.0);
  CHECK(b / 2_GB == 3.0);
}

TEST_CASE("GiB is 7.4 percent more than GB", "[units]") {
  CHECK(1_GiB / 1_GB == Approx(1.073741824).epsilon(1e-12));
  CHECK(1_MiB / 1_MB == Approx(1.048576).epsilon(1e-12));
}

TEST_CASE("Quantities are ordered by their value", "[units]") {
  CHECK(1_GB < 1_GiB);
  CHECK(1_ms > 999_us);
  CHECK(1.5_GBps >= 1500_MBps);
  CHECK(Bytes{} == 0_B);
}
