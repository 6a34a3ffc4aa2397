// The assignment of layers, compared with all possible ones.
#include "planner/assign_layers.hpp"

#include <random>

#include "tests/catch.hpp"

using namespace rigcast::planner;

namespace {

// The best assignment, by trying all of them.
class EveryWay {
 public:
  explicit EveryWay(const AssignmentProblem& p) : p_(p) { extend({}, 0); }

  std::optional<Assignment> best() const { return best_; }

 private:
  void extend(std::vector<int> way, double seconds) {
    const auto layer = way.size();
    const int last = way.empty() ? -1 : way.back();
    if (int(layer) == p_.layers)
      return keep(way, seconds + p_.locations[std::size_t(last)].end_seconds);
    for (std::size_t to = 0; to < p_.locations.size(); ++to) {
      const double change = p_.change[std::size_t(last + 1)][to];
      if (change == kForbidden) continue;
      std::vector<int> longer = way;
      longer.push_back(int(to));
      extend(longer, seconds + change + p_.locations[to].seconds[layer]);
    }
  }
  void keep(const std::vector<int>& way, double seconds) {
    if (best_ && best_->seconds <= seconds) return;
    for (std::size_t m = 0; m < p_.capacity.size(); ++m)
      if (bytes(way, m) > p_.capacity[m]) return;
    best_ = Assignment{way, seconds};
  }
  double bytes(const std::vector<int>& way, std::size_t memory) const {
    double sum = p_.locations[std::size_t(way.back())].end_bytes[memory];
    for (std::size_t layer = 0; layer < way.size(); ++layer) {
      const Location& s = p_.locations[std::size_t(way[layer])];
      sum += s.bytes[memory][layer];
      if (layer == 0 || p_.locations[std::size_t(way[layer - 1])].device != s.device)
        sum += s.own_bytes[memory];
    }
    return sum;
  }

  const AssignmentProblem& p_;
  std::optional<Assignment> best_;
};

// Problems with locations in order, one memory each. Layers never return to an earlier location,
// and in half of the problems none is skipped.
AssignmentProblem random_problem(std::mt19937& random) {
  const auto between = [&](int lo, int hi) { return lo + int(random() % unsigned(hi - lo + 1)); };
  AssignmentProblem p;
  p.layers = between(1, 8);
  const auto devices = std::size_t(between(1, 4));
  const bool even = between(0, 1) == 0, in_a_row = between(0, 1) == 0;
  for (std::size_t d = 0; d < devices; ++d) {
    Location s;
    s.device = d > 0 && between(0, 3) == 0 ? p.locations.back().device : int(d);
    const int speed = between(1, 20);
    for (int i = 0; i < p.layers; ++i) s.seconds.push_back(even ? speed : between(1, 20));
    s.bytes.assign(devices, std::vector<double>(std::size_t(p.layers), 0.0));
    for (double& b : s.bytes[d]) b = even ? 100 : between(50, 150);
    s.own_bytes.assign(devices, 0.0);
    s.own_bytes[d] = between(0, 100);
    s.end_seconds = between(0, 30);
    s.end_bytes.assign(devices, 0.0);
    s.end_bytes[d] = between(0, 200);
    p.locations.push_back(s);
    p.capacity.push_back(between(100, 150 * p.layers));
  }
  p.change.assign(devices + 1, std::vector<double>(devices, 0.0));
  for (std::size_t from = 1; from <= devices; ++from)
    for (std::size_t to = 0; to < devices; ++to)
      p.change[from][to] = to + 1 < from ? kForbidden : to + 1 == from ? 0 : between(0, 5);
  if (in_a_row)
    for (std::size_t from = 0; from <= devices; ++from)
      for (std::size_t to = from + 1; to < devices; ++to) p.change[from][to] = kForbidden;
  return p;
}

}  // namespace

TEST_CASE("The shortest path is the best of all ways", "[planner]") {
  std::mt19937 random(1);
  int fitting = 0;
  for (int i = 0; i < 2000; ++i) {
    const AssignmentProblem p = random_problem(random);
    const auto want = EveryWay(p).best(), got = assign_layers(p);
    INFO("problem " << i);
    REQUIRE(got.has_value() == want.has_value());
    if (!want) continue;
    ++fitting;
    REQUIRE(got->seconds == Approx(want->seconds));
    REQUIRE(got->location.size() == std::size_t(p.layers));
  }
  CHECK(fitting > 500);
}

TEST_CASE("A slow device is left idle", "[planner]") {
  AssignmentProblem p;
  p.layers = 10;
  p.capacity = {1000, 1000};
  const auto location = [](std::size_t memory, double seconds) {
    Location s;
    s.device = int(memory);
    s.seconds.assign(10, seconds);
    s.bytes.assign(2, std::vector<double>(10, 0.0));
    s.bytes[memory].assign(10, 100.0);
    s.own_bytes = s.end_bytes = {0, 0};
    return s;
  };
  p.locations = {location(0, 5.0), location(1, 1.0)};
  p.change = {{0, 0}, {0, 0.5}, {kForbidden, 0}};
  const auto all_fast = assign_layers(p);
  REQUIRE(all_fast);
  CHECK(all_fast->location == std::vector<int>(10, 1));
  CHECK(all_fast->seconds == 10);
  p.capacity[1] = 750;
  const auto shared = assign_layers(p);
  REQUIRE(shared);
  CHECK(shared->location == std::vector<int>{0, 0, 0, 1, 1, 1, 1, 1, 1, 1});
  CHECK(shared->seconds == 3 * 5.0 + 0.5 + 7);
  p.at_most = 22;  // a better one is known
  CHECK_FALSE(assign_layers(p));
  p.at_most = kForbidden;
  p.capacity[0] = 250;
  CHECK_FALSE(assign_layers(p));
}
