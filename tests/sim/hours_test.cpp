// A timeline of sessions and other memory, in closed form.
#include "sim/hours.hpp"

#include <chrono>

#include "perfmodel/page_in.hpp"
#include "perfmodel/pressure/paging_time.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::with;

namespace {

Settings cpu_only() {
  return {{"model.name", "llama-3.1-8b"}, {"rig.gpu", "[]"},
          {"placement.gpu_layers", "0"},  {"runtime.name", "rigcast"},
          {"rig.ram_reserved", "0 GiB"},  {"rig.ram_capacity", "16 GiB"},
          {"memory.limit", "12 GiB"},     {"workload.context", "32768"}};
}

// One session that grows from 1,000 to 32,000 tokens in ten hours.
Scenario growing(const Settings& more = {}) {
  Scenario s = scenario(with(cpu_only(), more));
  TimelineEntry first, last;
  first.session_tokens = 1000;
  last.at = Seconds{36000};
  last.session_tokens = 32000;
  s.memory->timeline = {first, last};
  return s;
}

// All but the embedding, of which a token needs a row.
double used_weights(const Scenario& s) {
  return double(s.tensors.bytes() - s.tensors.embedding.bytes());
}

Report report_of(Scenario s) {
  return sim::simulate(std::make_shared<const Scenario>(std::move(s)), {});
}

}  // namespace

TEST_CASE("The first page leaves when cache, weights and buffers are as large as the limit",
          "[pressure]") {
  const Report r = report_of(growing({{"memory.limit", "7 GiB"}}));
  REQUIRE(r.hours);
  REQUIRE(r.hours->first_page);
  // (limit - all but the cache) / bytes of a token, along the line from 1,000 to 32,000 tokens.
  const Scenario& s = *r.scenario;
  const DeviceMemory host = r.memory.devices.back();
  const double others = used_weights(s) + host.activations.value;
  double token = 0;
  for (int l = 0; l < s.model.layers; ++l) token += kv_bytes_per_token(s.model, l, s.kv.types);
  const double tokens = ((7_GiB).value - others) / token;
  const double at = 36000 * (tokens - 1000) / 31000;
  // A token's share of the hours is 1.2 s, a block of the cache as much as it has tokens.
  CHECK(r.hours->first_page->value == Approx(at).margin(1.2 * 140));
}

TEST_CASE("Without pressure a timeline gives the speed of its batch", "[pressure]") {
  const Report r = report_of(growing());
  REQUIRE(r.hours);
  CHECK_FALSE(r.hours->first_page);
  CHECK(r.hours->tokens == Approx(r.hours->unpressed_tokens));
  for (const HourPoint& p : r.hours->points) {
    CHECK(p.reclaim == "fits");
    CHECK(p.disk.value == 0);
  }
  CHECK(r.hours->points.front().tokens_per_s > r.hours->points.back().tokens_per_s);
}

TEST_CASE("Weights that are read again take as long as the disk needs", "[pressure]") {
  const Report r = report_of(growing({{"memory.limit", "6 GiB"}}));
  REQUIRE(r.hours);
  const HourPoint& last = r.hours->points.back();
  REQUIRE(last.reclaim == "files");
  const HourPoint free = report_of(growing()).hours->points.back();
  const double more = 1 / last.tokens_per_s - 1 / free.tokens_per_s;
  CHECK(more == Approx((last.disk / file_read_rate(*r.scenario)).value).epsilon(1e-6));
  CHECK(last.disk.value == Approx(used_weights(*r.scenario)));
}

TEST_CASE("Other programs' memory and ended sessions move the hour of the first page",
          "[pressure]") {
  Scenario s = growing({{"memory.swap", "8 GiB"}});
  s.memory->limit.reset();
  const auto first_page = [](const Scenario& of) { return report_of(of).hours->first_page; };
  CHECK_FALSE(first_page(s));
  for (TimelineEntry& e : s.memory->timeline) e.other = 8_GiB;
  const auto with_others = first_page(s);
  REQUIRE(with_others);
  s.memory->timeline.back().sessions = s.memory->timeline.front().sessions = 4;
  const auto with_sessions = first_page(s);
  REQUIRE(with_sessions);
  CHECK(*with_sessions < *with_others);
  s.memory->max_sessions = 1;
  CHECK(first_page(s)->value == Approx(with_others->value));
}

TEST_CASE("More than memory and swap hold is no slow answer but none", "[pressure]") {
  Scenario s = growing({{"memory.limit", "6 GiB"}});
  for (TimelineEntry& e : s.memory->timeline) e.sessions = 8;
  const Report r = report_of(std::move(s));
  REQUIRE(r.hours);
  CHECK(r.hours->points.back().reclaim == "full");
  CHECK(r.hours->points.back().tokens_per_s == 0);
}

TEST_CASE("Seventy-two hours of sessions that come and go take less than a second", "[pressure]") {
  Scenario s = growing({{"memory.limit", "9 GiB"}, {"memory.swap", "16 GiB"}});
  s.memory->timeline.clear();
  for (int hour = 0; hour <= 72; ++hour) {
    TimelineEntry e;
    e.at = Seconds{3600.0 * hour};
    e.sessions = 1 + hour % 5;
    e.session_tokens = 2000 + 500 * (hour % 9);
    s.memory->timeline.push_back(e);
  }
  const Placement placement = resolve_placement(s);
  static_cast<void>(report_of(s));  // the machine is set
  const auto begin = std::chrono::steady_clock::now();
  const Hours hours = sim::simulate_hours(s, placement);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  CHECK(hours.points.size() > 72);
  CHECK(seconds.count() < 1);
}

TEST_CASE("Caches that VRAM has no room for end the hours, as those of RAM do", "[pressure]") {
  Scenario s = scenario({{"model.name", "llama-3.1-8b"},
                         {"rig.gpu", "[\"rtx-4070\"]"},
                         {"runtime.name", "rigcast"},
                         {"memory.swap", "1 GiB"}});
  TimelineEntry one, many;
  one.session_tokens = many.session_tokens = 4000;
  many.at = Seconds{3600};
  many.sessions = 200;
  s.memory->timeline = {one, many};
  const Report r = report_of(std::move(s));
  REQUIRE(r.hours);
  CHECK(r.hours->points.front().tokens_per_s > 0);
  CHECK(r.hours->points.back().reclaim == "full");
  CHECK(r.hours->points.back().tokens_per_s == 0);
}

TEST_CASE("Every change of regime is found to a second", "[pressure]") {
  // It fits, then the cache is swapped beside files that are read once, then swap is full.
  Scenario s = growing({{"memory.limit", "6 GiB"}, {"memory.swap", "1 GiB"}});
  s.memory->lock = MemoryLock::kWeights;
  for (TimelineEntry& e : s.memory->timeline) e.stream = BytesPerSecond{1e8};
  const Report r = report_of(std::move(s));
  REQUIRE(r.hours);
  int changes = 0;
  const auto& points = r.hours->points;
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    if (points[i].reclaim == points[i + 1].reclaim) continue;
    ++changes;
    CHECK((points[i + 1].at - points[i].at).value <= 1);
  }
  CHECK(changes == 2);
}
