// Copies of a KV cache that share links with steps: worked out by hand, and between the bounds of
// no contention and of one after the other.
#include "sim/machine/copy_flows.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "tests/catch.hpp"

using namespace rigcast;
using namespace rigcast::sim;

namespace {

// SimGrid's sharing of links is exact; what remains is the clock's rounding.
constexpr double kTolerance = 1e-9;
Approx about(double seconds) { return Approx(seconds).epsilon(kTolerance).margin(0); }

// A link that carries a gigabyte per second, and RAM that carries more than all of it.
CopyLinks links() {
  return {.h2d{1e9}, .d2h{1e9}, .ram{10e9}, .to_ram{0.7e9}, .from_ram{0.7e9}, .exchange{0.8e9}};
}

StepUse step_of(double seconds) { return Seconds{seconds}; }

StepUse exchanging(double seconds, double bytes) {
  StepUse use = step_of(seconds);
  use.exchanged = Bytes{bytes};
  return use;
}

}  // namespace

TEST_CASE("A copy and an all-reduce get half of the link each", "[copies]") {
  CopyFlows flows(links(), Seconds{});
  flows.add(CopyDirection::kToRam, Bytes{2e9}, 7);
  // A second alone, in which 0.7 GB are copied; then 0.4 GB, which would take half a second.
  CHECK(flows.step(Seconds{10}, exchanging(1.5, 0.4e9), 1).value == about(1 + 0.8));
  CHECK_FALSE(flows.is_idle());
  // 0.9 GB are left, and nothing is in their way.
  CHECK(flows.finish(Seconds{11.8}).value == about(0.9 / 0.7));
  const auto done = flows.take_done();
  REQUIRE(done.size() == 1);
  CHECK(done[0].tag == 7);
  CHECK(done[0].begin == Seconds{10});
  CHECK(done[0].end.value == about(11.8 + 0.9 / 0.7));
  CHECK(flows.take_done().empty());
}

TEST_CASE("A step is as long as alone from where copies have ended", "[copies]") {
  CopyFlows flows(links(), Seconds{});
  flows.add(CopyDirection::kFromRam, Bytes{0.35e9});
  // Ten layers of 0.1 s, half of which is an exchange of 0.04 GB. Beside it a layer takes 0.13 s,
  // in which 0.035 and 0.04 GB are copied: 0.3 GB in four layers, and 0.035 GB in the first half of
  // the fifth. The exchange loses 3/8 of its rate while the last 0.015 GB are copied.
  const double took = flows.step(Seconds{}, exchanging(1, 0.4e9), 10).value;
  CHECK(took == about(1 + 4 * 0.03 + 0.015 / 0.5 * 3 / 8));
  CHECK(flows.is_idle());
}

TEST_CASE("Copies both ways and what the CPU reads share RAM", "[copies]") {
  CopyLinks narrow = links();
  narrow.ram = BytesPerSecond{1.2e9};
  CopyFlows flows(narrow, Seconds{});
  flows.add(CopyDirection::kToRam, Bytes{6e9});
  flows.add(CopyDirection::kFromRam, Bytes{6e9});
  // 1.4 GB/s of both do not fit: each has 0.6 GB/s.
  CHECK(flows.step(Seconds{}, step_of(1), 4).value == about(1));
  // With the CPU's a third each.
  StepUse reading = step_of(1);
  reading.read = Bytes{1.2e9};
  CHECK(flows.step(Seconds{1}, reading, 4).value == about(3));
  CHECK(flows.finish(Seconds{4}).value == about((6 - 0.6 - 1.2) / 0.6));
}

TEST_CASE("Weights that are streamed share the link with copies from RAM alone", "[copies]") {
  for (const CopyDirection direction : {CopyDirection::kToRam, CopyDirection::kFromRam}) {
    CopyFlows flows(links(), Seconds{});
    flows.add(direction, Bytes{10e9});
    StepUse streaming = step_of(1);
    streaming.streamed = Bytes{1e9};
    const bool shares = direction == CopyDirection::kFromRam;
    CHECK(flows.step(Seconds{}, streaming, 8).value == about(shares ? 2 : 1));
  }
}

TEST_CASE("Copies of one direction follow one another, each after its start", "[copies]") {
  CopyFlows flows(links(), Seconds{0.25});
  flows.add(CopyDirection::kFromRam, Bytes{0.7e9}, 1);
  flows.add(CopyDirection::kFromRam, Bytes{1.4e9}, 2);
  CHECK(flows.has(CopyDirection::kFromRam));
  CHECK(flows.wait(Seconds{}, Seconds{0.125}).value == 0.125);
  CHECK(flows.take_done().empty());
  // The first one ends before the time that is waited for.
  CHECK(flows.wait(Seconds{0.125}, Seconds{9}).value == about(1.125));
  CHECK(flows.wait(Seconds{1.25}, std::nullopt).value == about(2.25));
  const auto done = flows.take_done();
  REQUIRE(done.size() == 2);
  CHECK(done[0].tag == 1);
  CHECK(done[1].begin.value == about(1.25));
  CHECK(done[1].end.value == about(3.5));
  CHECK(flows.wait(Seconds{4}, Seconds{6}) == Seconds{2});
}

TEST_CASE("Layers wait for their parts as the closed form has it", "[copies]") {
  CopyLinks wide = links();
  wide.h2d = wide.d2h = wide.ram = BytesPerSecond{100e9};
  for (const double step : {0.2, 1.0, 3.0})
    for (const int copies : {1, 3}) {
      CopyFlows flows(wide, Seconds{0.01});
      const double copying = 0.01 * copies + 1.0;
      const double took =
          flows.step_behind_copies(Seconds{5}, exchanging(step, 0.08e9), 32, Bytes{0.7e9}, copies)
              .value;
      CHECK(took == about(std::max(copying, step) + std::min(copying, step) / 32));
      REQUIRE(flows.is_idle());
      const auto done = flows.take_done();
      REQUIRE(done.size() == 1);
      CHECK((done[0].end - done[0].begin).value == about(copying));
    }
}

TEST_CASE("Steps and copies are between no contention and one after the other", "[copies]") {
  std::mt19937_64 random(3);
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * double(random() >> 11) / 9007199254740992.0;
  };
  int slowed = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const bool is_wide = trial % 3 == 0;
    CopyLinks l = links();
    l.ram = BytesPerSecond{is_wide ? 10e9 : uniform(0.8e9, 2e9)};
    if (is_wide) l.h2d = l.d2h = BytesPerSecond{3e9};
    const Seconds start{uniform(0, 0.01)};
    CopyFlows flows(l, start);
    double now = 0, alone = 0, added = 0, copying = 0;
    for (int i = 0; i < 12; ++i) {
      for (const CopyDirection direction : {CopyDirection::kToRam, CopyDirection::kFromRam}) {
        if (uniform(0, 1) < 0.5) continue;
        const double bytes = uniform(1e5, 0.3e9);
        flows.add(direction, Bytes{bytes});
        added += bytes;
        copying += start.value + bytes / std::min(l.to_ram, l.ram).value;
      }
      StepUse use = exchanging(uniform(0.2, 0.5), uniform(0, 0.1e9));
      if (!is_wide && i % 2 == 0) use.read = Bytes{uniform(0, 0.05) * l.ram.value};
      if (!is_wide && i % 3 == 0) use.streamed = Bytes{uniform(0, 0.02e9)};
      const double took = flows.step(Seconds{now}, use, 8).value;
      CHECK(took >= use.time.value * (1 - kTolerance));
      now += took;
      alone += use.time.value;
    }
    CHECK(now <= (alone + copying) * (1 + kTolerance));
    if (is_wide) CHECK(now == about(alone));
    if (now > alone * (1 + kTolerance)) ++slowed;
    flows.finish(Seconds{now});
    double moved = 0;
    std::array<double, 2> last{};
    for (const CopyFlows::Done& done : flows.take_done()) {
      moved += done.bytes.value;
      const double least = start.value + done.bytes.value / l.to_ram.value;
      CHECK((done.end - done.begin).value >= least * (1 - kTolerance));
      if (is_wide) CHECK((done.end - done.begin).value == about(least));
      CHECK(done.begin.value >= last[std::size_t(done.direction)] - kTolerance);
      last[std::size_t(done.direction)] = done.end.value;
    }
    CHECK(moved == Approx(added).epsilon(1e-12));
  }
  CHECK(slowed > 150);
}
