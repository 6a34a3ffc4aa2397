#include "engine/threads/thread_team.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/catch.hpp"

using namespace rigcast::engine;

TEST_CASE("Work that is shared is done once, before anyone goes on", "[engine][team]") {
  for (const int threads : {1, 2, 5}) {
    ThreadTeam team(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> done(101);
      std::atomic<int> early{0};
      team.run([&](Worker& w) {
        for (int stage = 0; stage < 3; ++stage) {
          w.parallel_for(101, 7, [&](std::int64_t begin, std::int64_t end) {
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
      ThreadTeam team(threads);
      std::vector<std::atomic<int>> done(std::size_t(n) + 1);
      std::atomic<int> pieces{0};
      team.run([&](Worker& w) {
        for (int stage = 0; stage < 3; ++stage)
          w.parallel_for_guided(n, [&](std::int64_t begin, std::int64_t end) {
            ++pieces;
            for (std::int64_t i = begin; i < end; ++i) ++done[std::size_t(i)];
          });
      });
      for (int i = 0; i < n; ++i) REQUIRE(done[std::size_t(i)] == 3);
      CHECK(done[std::size_t(n)] == 0);
      // A piece is 1 / (2 * threads) of the rest, so the number of pieces grows as a logarithm.
      CHECK(pieces <= 3 * std::min(n, 2 * threads * 8));
    }
}

TEST_CASE("What is done alone is done once, after all before it and before all after it",
          "[engine][team]") {
  for (const int threads : {1, 2, 5}) {
    ThreadTeam team(threads);
    std::atomic<int> before{0}, early{0}, late{0};
    int alone = 0;  // no atomic: barriers are what keeps it whole
    team.run([&](Worker& w) {
      for (int stage = 1; stage <= 500; ++stage) {
        w.parallel_for_nowait(7, 1, [&](std::int64_t, std::int64_t) { ++before; });
        w.run_once([&] {
          if (before != 7 * stage) ++early;
          ++alone;
        });
        if (alone != stage) ++late;
        w.barrier();
      }
    });
    CHECK(early == 0);
    CHECK(late == 0);
    CHECK(alone == 500);
  }
}

TEST_CASE("What is thrown alone ends the job of all", "[engine][team]") {
  ThreadTeam team(4);
  for (int round = 0; round < 50; ++round)
    CHECK_THROWS_AS(team.run([&](Worker& w) {
      w.run_once([] { throw std::runtime_error("no"); });
      for (int i = 0; i < 10; ++i) w.barrier();
    }),
                    std::runtime_error);
  std::atomic<int> members{0};
  team.run([&](Worker&) { ++members; });
  CHECK(members == 4);
}

TEST_CASE("Members whose patience ends are woken", "[engine][team]") {
  ThreadTeam team(3, ThreadTeam::SpinTime{0});
  std::atomic<int> passed{0};
  for (int round = 0; round < 20; ++round)
    team.run([&](Worker& w) {
      if (w.index() == round % 3) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      w.barrier();
      ++passed;
    });
  CHECK(passed == 60);
}

TEST_CASE("Memory is asked for to its end and no further", "[engine][team]") {
  CHECK_FALSE(Prefetcher().prefetch_next());
  std::array<std::byte, 4096> memory{};
  for (const std::size_t bytes : {0u, 1u, 64u, 1024u, 1025u, 4096u}) {
    Prefetcher ahead({memory.data(), bytes});
    std::size_t times = 0;
    while (ahead.prefetch_next()) ++times;
    CHECK(times == (bytes + 1023) / 1024);  // 16 lines at once
  }
}

TEST_CASE("What one member throws ends the job of all", "[engine][team]") {
  ThreadTeam team(4);
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

// The count of jobs goes round within the first hundred.
TEST_CASE("A team has more jobs to do than an int counts", "[engine][team]") {
  ThreadTeam team(3);
  std::atomic<int> done{0};
  for (int job = 0; job < 1000; ++job) team.run([&](Worker&) { ++done; });
  CHECK(done == 3000);
}

TEST_CASE("A team that is asked to stop leaves its job between two pieces", "[engine][team]") {
  std::atomic<bool> asked{false};
  ThreadTeam team(3, ThreadTeam::kSpinTime, rigcast::StopFlag(asked));
  for (const bool shrinking : {false, true})
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> after{0}, later{0};
      const auto piece = [&](std::int64_t begin, std::int64_t) {
        if (begin >= 500) asked = true;
        if (asked) ++after;
      };
      CHECK_THROWS_AS(team.run([&](Worker& w) {
        shrinking ? w.parallel_for_guided(10'000, piece) : w.parallel_for(10'000, 1, piece);
        ++later;
      }),
                      rigcast::Interrupted);
      CHECK(after >= 1);
      CHECK(after <= 2 * team.size());  // what each had begun, or had looked for just before
      CHECK(later == 0);
      CHECK_THROWS_AS(team.run([&](Worker&) { ++later; }), rigcast::Interrupted);
      CHECK(later == 0);
      asked = false;
      team.run([&](Worker&) { ++later; });  // and it works on
      CHECK(later == 3);
    }
}
