#include "engine/backends/cuda/kv/cpu_gpu_kv_split.hpp"

#include "core/base/units.hpp"
#include "tests/catch.hpp"

using namespace rigcast;
using engine::CpuGpuKvSplit;

namespace {

constexpr Bytes kBlock{1e6};
// Together 150 GB/s, two thirds of them the host's.
const engine::ConcurrentBandwidth kRates{BytesPerSecond{100e9}, BytesPerSecond{50e9}};

}  // namespace

TEST_CASE("A share that was asked for stays", "[hybrid]") {
  CpuGpuKvSplit fixed(0.25);
  CHECK(fixed.of_host(40, kBlock) == 10);
  CHECK_FALSE(fixed.record_period(Seconds{1}, kBlock));
  CHECK(fixed.of_host(40, kBlock) == 10);
  CHECK(CpuGpuKvSplit().of_host(40, kBlock) == 0);
}

TEST_CASE("Host and link read as long as each other, the link also while the GPU does the rest",
          "[hybrid]") {
  CpuGpuKvSplit kv_split(kRates);
  CHECK(kv_split.of_host(30, kBlock) == 20);
  // 300 us, of which the host needs 200 for 20 MB: the link copies 5 MB in the rest.
  CHECK(kv_split.record_period(Seconds{300e-6}, 20 * kBlock));
  const TokenCount of_host = kv_split.of_host(30, kBlock);
  CHECK(of_host == 16);  // (30 - 5) x 2/3
  const double host = 100e-6 + double(of_host) * 1e6 / 100e9;
  const double link = double(30 - of_host) * 1e6 / 50e9;
  CHECK(host == Approx(link).epsilon(0.1));
  CHECK(kv_split.of_host(5, kBlock) == 0);  // all come in time
}

TEST_CASE("A layer that waited for the link does not change the split", "[hybrid]") {
  CpuGpuKvSplit kv_split(kRates);
  kv_split.record_period(Seconds{300e-6}, 20 * kBlock);
  CHECK_FALSE(kv_split.record_period(Seconds{900e-6}, 20 * kBlock));
  CHECK(kv_split.of_host(30, kBlock) == 16);
  kv_split.record_period(Seconds{250e-6}, 20 * kBlock);
  CHECK(kv_split.of_host(30, kBlock) == 18);             // (30 - 2.5) x 2/3
  kv_split.record_period(Seconds{100e-6}, 20 * kBlock);  // faster than it was measured to be
  CHECK(kv_split.of_host(30, kBlock) == 20);
}
