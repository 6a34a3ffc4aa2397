// The most users or requests per second that a server takes.
#include "planner/capacity/capacity.hpp"

#include "tests/catch.hpp"

using namespace rigcast;
using planner::find_capacity;
using planner::find_most;

namespace {

Load users_who_want(double seconds) {
  Load load;
  load.slo.ttft = LatencyLimit{Seconds{seconds}, 95};
  return load;
}

// A server that serves up to so many users, or requests/s.
planner::ServeLoad serves(double most, int* calls = nullptr) {
  return [=](const Load& load) -> Result<ServingFigures> {
    if (calls) ++*calls;
    ServingFigures f;
    const double amount = load.is_open() ? load.rate : double(load.users);
    f.ttft.p95 = amount;
    if (amount > most) f.broken = "TTFT p95";
    return f;
  };
}

}  // namespace

TEST_CASE("Capacity is the most users with whom the latencies are met", "[capacity]") {
  for (const double most : {1.0, 2.0, 37.0, 1000.0}) {
    int calls = 0;
    const auto found = find_most(users_who_want(2), serves(most, &calls));
    REQUIRE(found);
    CHECK(found->in_users);
    CHECK(found->most == most);
    CHECK(found->broken == "TTFT p95");
    CHECK(calls <= 25);
  }
  const auto nobody = find_most(users_who_want(2), serves(0));
  REQUIRE(nobody);
  CHECK(nobody->most == 0);
  CHECK(nobody->broken == "TTFT p95");
}

TEST_CASE("Wherever the search begins, it ends with the same", "[capacity]") {
  for (const double most : {0.0, 1.0, 37.0, 1000.0})
    for (const double about : {1.0, 20.0, 37.0, 64.0, 5000.0}) {
      const auto found = find_most(users_who_want(2), serves(most), about);
      REQUIRE(found);
      CHECK(found->most == most);
      CHECK(found->broken == "TTFT p95");
    }
}

TEST_CASE("A rate is found to two percent", "[capacity]") {
  Load load = users_who_want(2);
  load.arrival = ArrivalProcess::kPoisson;
  for (const double most : {0.003, 0.7, 42.0}) {
    const auto found = find_most(load, serves(most));
    REQUIRE(found);
    CHECK_FALSE(found->in_users);
    CHECK(found->most <= most);
    CHECK(found->most * 1.021 >= most);
  }
}

TEST_CASE("The curve rises, has the capacity in it, and goes beyond", "[capacity]") {
  const auto found = find_capacity(users_who_want(2), serves(37));
  REQUIRE(found);
  REQUIRE(found->curve.size() >= 5);
  bool has = false;
  for (std::size_t i = 0; i < found->curve.size(); ++i) {
    has = has || found->curve[i].amount == 37;
    if (i > 0) CHECK(found->curve[i].amount > found->curve[i - 1].amount);
  }
  CHECK(has);
  CHECK(found->curve.back().amount > 37);
}

TEST_CASE("A load without a wish, and one that is recorded, have no capacity", "[capacity]") {
  CHECK_FALSE(find_most(Load{}, serves(1)));
  Load load = users_who_want(2);
  load.arrival = ArrivalProcess::kTrace;
  CHECK_FALSE(find_most(load, serves(1)));
  const auto fails = [](const Load&) -> Result<ServingFigures> { return bad_input("no"); };
  const auto found = find_most(users_who_want(2), fails);
  REQUIRE_FALSE(found);
  CHECK(found.error().message == "no");
}
