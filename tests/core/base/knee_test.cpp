#include "core/base/knee.hpp"

#include <cmath>
#include <vector>

#include "tests/catch.hpp"

using namespace rigcast;

namespace {

// Milliseconds of tokens whose cache is read at 1 us a token, and past `cold` at `slope` us more.
std::vector<double> times(int count, int cold, double slope) {
  std::vector<double> out;
  for (int i = 0; i < count; ++i)
    out.push_back(1e-3 * (2 + 0.001 * i + 0.001 * slope * std::max(0, i - cold)));
  return out;
}

}  // namespace

TEST_CASE("A knee is where times leave their first line", "[knee]") {
  for (const int cold : {400, 1000, 1700}) {
    const auto knee = find_knee(times(2000, cold, 20), 32);
    REQUIRE(knee);
    INFO(cold);
    CHECK(std::abs(double(knee->at) - cold) <= 32);
    CHECK(knee->before.value == Approx(1e-3 * (2 + 0.001 * cold)).epsilon(0.02));
    CHECK(knee->after.value > 1.5 * knee->before.value);
  }
}

TEST_CASE("Spikes and noise move a knee by a piece at most", "[knee]") {
  auto t = times(2000, 1000, 20);
  for (std::size_t i = 0; i < t.size(); ++i) {
    t[i] *= 1 + 0.01 * std::sin(double(i * i));  // within one percent, without a period
    if (i % 128 == 0) t[i] += 5e-3;
  }
  const auto knee = find_knee(t, 32);
  REQUIRE(knee);
  CHECK(std::abs(double(knee->at) - 1000) <= 64);
}

TEST_CASE("One line has no knee, nor has a bend that costs little, nor one that frees", "[knee]") {
  CHECK_FALSE(find_knee(times(2000, 2000, 0), 32));
  CHECK_FALSE(find_knee(times(2000, 1900, 2), 32));  // 200 us on 4 ms
  auto falling = times(2000, 1000, 20);
  for (double& t : falling) t = 0.05 - t;
  CHECK_FALSE(find_knee(falling, 32));
  CHECK_FALSE(find_knee(times(100, 50, 20), 32));  // three pieces
  CHECK_FALSE(find_knee({}, 0));
}

TEST_CASE("Steps that are hardly felt are no knee yet", "[knee]") {
  // Blocks of 128 tokens leave: the first two cost 3 % together, the others 15 % each.
  std::vector<double> t;
  for (int i = 0; i < 3000; ++i) {
    const int left = std::max(0, (i - 2000) / 128);
    t.push_back(1e-3 * (2 + 1e-4 * i) * (1 + 0.015 * std::min(left, 2)) +
                3e-4 * std::max(0, left - 2));
  }
  const auto knee = find_knee(t, 32);
  REQUIRE(knee);
  CHECK(std::abs(double(knee->at) - (2000 + 3 * 128)) <= 32);
}
