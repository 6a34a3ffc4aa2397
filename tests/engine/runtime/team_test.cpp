#include "engine/runtime/team.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

#include "tests/catch.hpp"

using namespace rigcast::engine;

TEST_CASE("Work that is shared is done once, before anyone goes on", "[engine][team]") {
  for (const int threads : {1, 2, 5}) {
    Team team(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> done(101);
      std::atomic<int> early{0};
      team.run([&](Worker& w) {
        for (int stage = 0; stage < 3; ++stage) {
          w.share(101, 7, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) ++done[std::size_t(i)];
          });
          for (const auto& d : done)
            if (d != stage + 1) ++early;
          w.barrier();
        }
      });
      REQUIRE(early == 0);
    }
  }
}

TEST_CASE("Work that is shared in shrinking pieces is done once", "[engine][team]") {
  for (const int threads : {1, 2, 5})
    for (const int n : {0, 1, 7, 1000}) {
      Team team(threads);
      std::vector<std::atomic<int>> done(std::size_t(n) + 1);
      std::atomic<int> pieces{0};
      team.run([&](Worker& w) {
        for (int stage = 0; stage < 3; ++stage)
          w.share_shrinking(n, [&](std::int64_t begin, std::int64_t end) {
            ++pieces;
            for (std::int64_t i = begin; i < end; ++i) ++done[std::size_t(i)];
          });
      });
      for (int i = 0; i < n; ++i) REQUIRE(done[std::size_t(i)] == 3);
      CHECK(done[std::size_t(n)] == 0);
      // Of what is left a piece takes one part in 2 * threads: their number grows as a logarithm.
      CHECK(pieces <= 3 * std::min(n, 2 * threads * 8));
    }
}

TEST_CASE("What one member throws ends the job of all", "[engine][team]") {
  Team team(4);
  for (int thrower = 0; thrower < 4; ++thrower) {
    for (int round = 0; round < 50; ++round)
      CHECK_THROWS_AS(team.run([&](Worker& w) {
        w.barrier();
        if (w.index() == thrower) throw std::runtime_error("no");
        for (int i = 0; i < 10; ++i) w.barrier();
      }),
                      std::runtime_error);
    std::atomic<int> members{0};
    team.run([&](Worker& w) {
      ++members;
      w.barrier();
    });
    CHECK(members == 4);  // and the team works on
  }
}
