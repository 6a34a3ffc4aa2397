#include "core/base/quantile.hpp"

#include "tests/catch.hpp"

using namespace rigcast;

TEST_CASE("The median is the middle value, or the mean of the two in the middle", "[quantile]") {
  CHECK(median({5}) == 5);
  CHECK(median({9, 1, 4}) == 4);
  CHECK(median({8, 2, 4, 6}) == 5);
}

TEST_CASE("A weighted quantile is a value that occurs", "[quantile]") {
  const std::vector<Weighted> alike{{3, 1}, {1, 1}, {2, 1}};
  CHECK(weighted_quantile(alike, 0.0) == 1);
  CHECK(weighted_quantile(alike, 0.5) == 2);
  CHECK(weighted_quantile(alike, 1.0) == 3);
  CHECK(weighted_quantile(std::vector<Weighted>{{3, 8}, {1, 1}, {2, 1}}, 0.5) == 3);
  // A tenth added ten times is a little less than 1: half of twenty is reached anyway.
  std::vector<Weighted> twenty(10, {1, 0.1});
  twenty.insert(twenty.end(), 10, {2, 0.1});
  CHECK(weighted_quantile(twenty, 0.5) == 1);
  // Weight that lies outside the values, on either side, moves a quantile outwards.
  CHECK(weighted_quantile(alike, 0.3, 1.0) == 1);
  CHECK(weighted_quantile(alike, 0.7, 1.0) == 3);
}
