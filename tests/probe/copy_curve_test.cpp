// Copies by size, and the line through them.
#include "probe/copy_curve.hpp"

#include <array>
#include <vector>

#include "tests/catch.hpp"

using rigcast::probe::copy_curve;
using rigcast::probe::CopyCurve;
using rigcast::probe::CopyTime;
using rigcast::probe::line_through;

namespace {

constexpr double kLatency = 8e-6, kRate = 25e9;

std::vector<CopyTime> exact(double slower = 1) {
  std::vector<CopyTime> copies;
  for (double bytes = 4096; bytes <= 256.0 * (1 << 20); bytes *= 4)
    copies.push_back({bytes, slower * (kLatency + bytes / kRate)});
  return copies;
}

}  // namespace

TEST_CASE("A line of latency and rate is found through copies that lie on it", "[probe]") {
  const auto line = line_through(exact());
  REQUIRE(line);
  CHECK(line->latency_s == Approx(kLatency).epsilon(1e-9));
  CHECK(line->bytes_per_s == Approx(kRate).epsilon(1e-9));
}

TEST_CASE("Small copies weigh as much in the line as large ones", "[probe]") {
  // The largest takes 10 % longer: in seconds that is a hundred times the latency.
  auto copies = exact();
  copies.back().seconds *= 1.1;
  const auto line = line_through(copies);
  REQUIRE(line);
  CHECK(line->latency_s == Approx(kLatency).epsilon(0.02));
  CHECK(line->bytes_per_s < kRate);
  CHECK(line->bytes_per_s > kRate / 1.1);
}

TEST_CASE("There is no line where times say nothing of the size", "[probe]") {
  CHECK_FALSE(line_through({}));
  CHECK_FALSE(line_through(std::array{CopyTime{4096, 1e-5}}));
  CHECK_FALSE(line_through(std::array{CopyTime{4096, 1e-5}, CopyTime{4096, 2e-5}}));
  CHECK_FALSE(line_through(std::array{CopyTime{4096, 1e-5}, CopyTime{8192, 1e-5}}));
  CHECK_FALSE(line_through(std::array{CopyTime{4096, 2e-5}, CopyTime{8192, 1e-5}}));
  CHECK_FALSE(line_through(std::array{CopyTime{4096, 0}, CopyTime{8192, 1e-5}}));
}

TEST_CASE("A latency is never less than none", "[probe]") {
  const auto line = line_through(std::array{CopyTime{1e6, 1e-5}, CopyTime{2e6, 3e-5}});
  REQUIRE(line);
  CHECK(line->latency_s == 0);
}

TEST_CASE("Every pass over the sizes is one take of the line", "[probe]") {
  const std::vector<std::vector<CopyTime>> passes = {exact(1.0), exact(1.2), exact(1.1)};
  const CopyCurve curve = copy_curve(passes);
  CHECK(curve.latency_s.n == 3);
  CHECK(curve.latency_s.median == Approx(1.1 * kLatency));
  CHECK(curve.bytes_per_s.median == Approx(kRate / 1.1));
  CHECK(curve.bytes_per_s.spread == Approx((1 / 1.0 - 1 / 1.2) * 1.1));
  REQUIRE(curve.points.size() == exact().size());
  CHECK(curve.points.front().bytes == 4096);
  CHECK(curve.points.front().seconds.median == Approx(1.1 * (kLatency + 4096 / kRate)));
  CHECK(copy_curve({}).points.empty());
}
