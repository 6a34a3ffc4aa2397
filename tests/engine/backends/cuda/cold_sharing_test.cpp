#include "engine/backends/cuda/kv/cold_sharing.hpp"

#include "core/base/units.hpp"
#include "tests/catch.hpp"

using namespace rigcast;
using engine::ColdSharing;

namespace {

constexpr Bytes kBlock{1e6};
// Together 150 GB/s, two thirds of them the host's.
const engine::SharedReading kRates{BytesPerSecond{100e9}, BytesPerSecond{50e9}};

}  // namespace

TEST_CASE("A share that was asked for stays", "[hybrid]") {
  ColdSharing fixed(0.25);
  CHECK(fixed.of_host(40, kBlock) == 10);
  CHECK_FALSE(fixed.took(Seconds{1}, kBlock));
  CHECK(fixed.of_host(40, kBlock) == 10);
  CHECK(ColdSharing().of_host(40, kBlock) == 0);
}

TEST_CASE("Host and link read as long as each other, the link also while the GPU does the rest",
          "[hybrid]") {
  ColdSharing sharing(kRates);
  CHECK(sharing.of_host(30, kBlock) == 20);
  // 300 us, of which the host takes 200 for 20 MB: the link brings 5 MB in the rest.
  CHECK(sharing.took(Seconds{300e-6}, 20 * kBlock));
  const TokenCount of_host = sharing.of_host(30, kBlock);
  CHECK(of_host == 16);  // (30 - 5) x 2/3
  const double host = 100e-6 + double(of_host) * 1e6 / 100e9;
  const double link = double(30 - of_host) * 1e6 / 50e9;
  CHECK(host == Approx(link).epsilon(0.1));
  CHECK(sharing.of_host(5, kBlock) == 0);  // all come in time
}

TEST_CASE("A layer that waited for the link tells nothing new", "[hybrid]") {
  ColdSharing sharing(kRates);
  sharing.took(Seconds{300e-6}, 20 * kBlock);
  CHECK_FALSE(sharing.took(Seconds{900e-6}, 20 * kBlock));
  CHECK(sharing.of_host(30, kBlock) == 16);
  sharing.took(Seconds{250e-6}, 20 * kBlock);
  CHECK(sharing.of_host(30, kBlock) == 18);    // (30 - 2.5) x 2/3
  sharing.took(Seconds{100e-6}, 20 * kBlock);  // faster than it was measured to be
  CHECK(sharing.of_host(30, kBlock) == 20);
}
