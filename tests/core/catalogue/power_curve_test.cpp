#include "core/catalogue/power_curve.hpp"

#include "core/catalogue/interconnect.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using fixtures::catalogue;

TEST_CASE("A GPU under its power limit has the speed of the curve of its architecture", "[power]") {
  const auto speed = [](const char* architecture, double share) {
    const auto found = speed_at_power(catalogue(), architecture, share);
    REQUIRE(found);
    return found->value;
  };
  CHECK(speed("ampere", 1.0) == 1);
  CHECK(speed("ampere", 0.73) == Approx(0.903));
  CHECK(speed("ampere", (0.622 + 0.676) / 2) == Approx((0.76 + 0.846) / 2));
  CHECK(speed("ampere", 0.257) == Approx(0.53 / 2));  // below what was measured, in proportion
  double before = 0;
  for (double share = 0.05; share <= 1; share += 0.01) {
    const double now = speed("ada", share);
    CHECK(now >= before);
    before = now;
  }
}

TEST_CASE("The curve of a neighbour is assumed, and none is invented", "[power]") {
  const auto hopper = speed_at_power(catalogue(), "hopper", 0.7);
  REQUIRE(hopper);
  CHECK(hopper->kind == SourceKind::kAssumed);
  CHECK(speed_at_power(catalogue(), "ampere", 0.7)->kind == SourceKind::kPublished);
  CHECK_FALSE(speed_at_power(catalogue(), "rdna3", 0.7));
}

TEST_CASE("Interconnects state the exchange of two, four and eight GPUs", "[shared]") {
  const BytesPerSecond link{20e9};
  const auto of_two = gpu_exchange(catalogue(), "nvlink-4", 2, link);
  REQUIRE(of_two);
  CHECK(of_two->bus.value.value == Approx(225e9));
  const auto of_three = gpu_exchange(catalogue(), "nvlink-4", 3, link);
  REQUIRE(of_three);
  CHECK(of_three->bus.value.value == Approx(260e9));  // those of four stand for three
  const auto by_pcie = gpu_exchange(catalogue(), "pcie-p2p", 2, link);
  REQUIRE(by_pcie);
  CHECK(by_pcie->bus.value.value == Approx(0.73 * 20e9));
  CHECK_FALSE(gpu_exchange(catalogue(), "nvlink-bridge", 4, link));
  const auto unknown = gpu_exchange(catalogue(), "infiniband", 2, link);
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().hint.find("nvlink-4") != std::string::npos);
}
