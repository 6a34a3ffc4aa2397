#include "core/base/statistics.hpp"

#include "tests/catch.hpp"

using namespace rigcast;

TEST_CASE("the median is the middle value, or the mean of the two in the middle") {
  CHECK(median({}) == 0);
  CHECK(median({5}) == 5);
  CHECK(median({9, 1, 4}) == 4);
  CHECK(median({8, 2, 4, 6}) == 5);
}

TEST_CASE("a weighted quantile is a value that occurs") {
  const std::vector<double> values{3, 1, 2}, alike{1, 1, 1};
  CHECK(weighted_quantile({}, {}, 0.5) == 0);
  CHECK(weighted_quantile(values, alike, 0.0) == 1);
  CHECK(weighted_quantile(values, alike, 0.5) == 2);
  CHECK(weighted_quantile(values, alike, 1.0) == 3);
  CHECK(weighted_quantile(values, std::vector<double>{8, 1, 1}, 0.5) == 3);
  // A tenth added ten times is a little less than 1: the share of the first ten is reached anyway.
  const std::vector<double> twenty{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  CHECK(weighted_quantile(twenty, std::vector<double>(20, 0.1), 0.5) == 1);
}

TEST_CASE("a weighted mean counts every value by its weight") {
  CHECK(weighted_mean(std::vector<double>{1, 4}, std::vector<double>{2, 1}) == 2);
}
