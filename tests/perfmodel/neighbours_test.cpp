// Threads of other programs that read memory beside the CPU.
#include <algorithm>
#include <cmath>

#include "perfmodel/serial_time.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::with;

namespace {

Settings on_cpu() {
  return {{"model.name", "llama-3.1-8b"},
          {"rig.gpu", "[]"},
          {"placement.gpu_layers", "0"},
          {"runtime.name", "rigcast"},
          {"runtime.threads", "4"}};
}

double token(const Settings& more) {
  const Scenario s = scenario(with(on_cpu(), more));
  return SerialForecast(s, s.workload).token(1000).value;
}

}  // namespace

TEST_CASE("Neighbours take memory from a decode that needs all of it, each as much as the last",
          "[neighbours]") {
  const double alone = token({});
  double before = alone;
  for (const char* threads : {"1", "2", "4", "8", "16"}) {
    const double now = token({{"runtime.neighbours", threads}});
    CHECK(now >= before);
    before = now;
  }
  CHECK(before > 1.5 * alone);
  // Where memory gives no more in all, a token's reads grow with ours + theirs; threads beyond the
  // 16 that the CPU runs take turns.
  const double a = token({{"runtime.neighbours", "12"}}), b = token({{"runtime.neighbours", "14"}}),
               c = token({{"runtime.neighbours", "16"}});
  CHECK(c - b == Approx(b - a).epsilon(1e-6));
  CHECK(token({{"runtime.neighbours", "64"}}) == c);
}

TEST_CASE("Threads without cores of their own are not isolated", "[neighbours]") {
  CHECK_NOTHROW(
      scenario(with(on_cpu(), {{"runtime.neighbours", "4"}, {"runtime.isolated", "true"}})));
  CHECK_THROWS(
      scenario(with(on_cpu(), {{"runtime.neighbours", "40"}, {"runtime.isolated", "true"}})));
}

TEST_CASE("Isolated cores that change no figure say so, and shared cores are noted",
          "[neighbours]") {
  const auto notes = [](const Settings& more) {
    const Scenario s = scenario(with(on_cpu(), more));
    return std::ranges::count_if(s.warnings, [](const std::string& w) {
      return w.find("isolated cores change no figure") != std::string::npos;
    });
  };
  const Settings both = {{"runtime.neighbours", "4"}, {"runtime.isolated", "true"}};
  CHECK(notes(both) == 1);
  CHECK(notes({{"runtime.isolated", "true"}}) == 1);
  CHECK(notes({{"runtime.neighbours", "4"}}) == 0);
  CHECK(token(both) == token({{"runtime.neighbours", "4"}}));
  // 4 threads and 5 neighbours on 8 cores: each of 16 processors is one thread's, but no core.
  const Scenario shared = scenario(with(on_cpu(), {{"runtime.neighbours", "5"}}));
  CHECK(std::ranges::any_of(shared.warnings, [](const std::string& w) {
    return w.find("share cores") != std::string::npos;
  }));
}
