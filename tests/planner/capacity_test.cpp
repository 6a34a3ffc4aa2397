// The most users or requests per second that a server takes.
#include "planner/capacity/capacity.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "planner/capacity/capacity_csv.hpp"
#include "planner/capacity/capacity_text.hpp"
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

double amount_of(const Load& load) { return load.is_open() ? load.rate : double(load.users); }

// A server that serves up to so many users, or requests/s.
planner::ServeLoad serves(double most, int* calls = nullptr) {
  return [=](const Load& load) -> Result<ServingFigures> {
    if (calls) ++*calls;
    ServingFigures f;
    const double amount = amount_of(load);
    f.ttft.p95 = amount;
    if (amount > most) f.broken = "TTFT p95";
    return f;
  };
}

// Above 200, users are found to one in 200.
bool is_found(const planner::Capacity& found, double most) {
  return found.most <= most && most - found.most < std::max(1.0, std::floor(found.most / 200));
}

}  // namespace

TEST_CASE("Capacity is the most users with whom the latencies are met", "[capacity]") {
  for (const double most : {1.0, 2.0, 37.0, 200.0, 1000.0}) {
    int calls = 0;
    const auto found = find_most(users_who_want(2), serves(most, &calls));
    REQUIRE(found);
    CHECK(found->in_users);
    CHECK(is_found(*found, most));
    CHECK(found->broken == "TTFT p95");
    CHECK(found->broken_at > most);
    CHECK(found->broken_at - found->most <= std::max(1.0, most / 200));
    REQUIRE(found->at_most);
    CHECK(found->at_most->ttft.p95 == found->most);
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
      CHECK(is_found(*found, most));
      CHECK(found->broken == "TTFT p95");
    }
}

TEST_CASE("A latency that says how near its limit is leads the search", "[capacity]") {
  // TTFT as 1 / (1 - load) of a queue, above which nothing is met.
  std::vector<double> tried;
  const auto queue = [&](const Load& load) -> Result<ServingFigures> {
    tried.push_back(amount_of(load));
    ServingFigures f;
    f.busy = std::min(1.0, amount_of(load) / 100);
    f.most_of_limit = f.busy < 1 ? 0.095 / (1 - f.busy) : 1000;
    if (f.most_of_limit > 1) f.broken = "TTFT p95";
    return f;
  };
  const auto found = find_capacity(users_who_want(2), queue);
  REQUIRE(found);
  CHECK(found->most == 90);
  CHECK(found->broken_at == 91);
  // None is tried twice: the curve has what the search tried. Halving alone takes 15 and seven.
  const auto count = tried.size();
  std::ranges::sort(tried);
  CHECK(std::ranges::adjacent_find(tried) == tried.end());
  CHECK(count <= 16);
}

TEST_CASE("What a server takes is what it takes for good", "[capacity]") {
  Load load = users_who_want(2);
  load.duration = Seconds{60};
  load.requests = kMaxRequests;  // as the reader leaves it
  const auto check = [](const Load& tried) -> Result<ServingFigures> {
    CHECK_FALSE(tried.duration);
    CHECK(tried.requests == Load{}.requests);
    return serves(3)(tried);
  };
  CHECK(find_most(load, check)->most == 3);
  load.requests = 77;  // that were asked for
  CHECK(planner::lasting(load).requests == 77);
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

TEST_CASE("Waits of an overloaded server are no figures", "[capacity]") {
  planner::CapacityPoint stable, overloaded;
  stable.amount = 1;
  stable.figures.ttft.p50 = stable.figures.ttft.p95 = 0.25;
  overloaded.amount = 2;
  overloaded.figures.ttft.p50 = overloaded.figures.ttft.p95 = 71.5;
  overloaded.figures.state = ServingState::kOverloaded;
  const Scenario scenario;
  const Load load = users_who_want(2);
  planner::CapacityReport report{scenario, load, {}, {}, {}, {}, {}, {}};
  report.capacity.curve = {stable, overloaded};
  const std::string csv = to_csv(report);
  INFO(csv);
  CHECK(csv.find(",is_capacity,state\n1,0,0,0.25,0.25,,0,0,,,true,false,stable\n"
                 "2,0,0,,,,0,0,,,false,false,overloaded\n") != std::string::npos);
  const std::string text = to_text(report, {});
  INFO(text);
  CHECK(text.find("TTFT p95 █  up to 250 ms") != std::string::npos);
  CHECK(text.find("71.5") == std::string::npos);
}
