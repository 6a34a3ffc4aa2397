#include "report/trace.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "tests/catch.hpp"

using namespace rigcast;
using nlohmann::json;

namespace {

std::vector<TraceEvent> two_events() {
  return {{.track = track_of(ActivityKind::kReadFile, kHost),
           .phase = Phase::kLoad,
           .kind = ActivityKind::kReadFile,
           .finish_s = 0.5,
           .bytes = 1e6},
          {.track = track_of(ActivityKind::kAttention, 0),
           .phase = Phase::kDecode,
           .kind = ActivityKind::kAttention,
           .layer = 3,
           .token = 512,
           .start_s = 0.5,
           .finish_s = 0.5015}};
}

json complete_events(const json& trace) {
  json out = json::array();
  for (const json& e : trace.at("traceEvents"))
    if (e.at("ph") == "X") out.push_back(e);
  return out;
}

}  // namespace

TEST_CASE("A trace is JSON with one event for each activity, in microseconds", "[trace]") {
  const json trace = json::parse(to_chrome_trace(two_events(), "a title"));
  const json events = complete_events(trace);
  REQUIRE(events.size() == 2);
  CHECK(events[0].at("name") == "read file");
  CHECK(events[0].at("cat") == "load");
  CHECK(events[0].at("dur").get<double>() == Approx(500'000.0));
  CHECK(events[0].at("args").at("bytes") == 1e6);
  CHECK_FALSE(events[0].at("args").contains("layer"));
  CHECK(events[1].at("ts").get<double>() == Approx(500'000.0));
  CHECK(events[1].at("dur").get<double>() == Approx(1500.0));
  CHECK(events[1].at("args").at("layer") == 3);
  CHECK(events[1].at("args").at("token") == 512);
}

TEST_CASE("Every track is named once, and every event is on a named track", "[trace]") {
  const json trace = json::parse(to_chrome_trace(two_events(), "a title"));
  std::set<int> named;
  std::set<std::string> names;
  bool titled = false;
  for (const json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "M") continue;
    if (e.at("name") == "process_name") titled = e.at("args").at("name") == "a title";
    if (e.at("name") != "thread_name") continue;
    CHECK(named.insert(e.at("tid").get<int>()).second);
    names.insert(e.at("args").at("name").get<std::string>());
  }
  CHECK(titled);
  CHECK(names == std::set<std::string>{"GPU 0", "SSD"});
  for (const json& e : complete_events(trace)) CHECK(named.contains(e.at("tid").get<int>()));
}

TEST_CASE("A trace of nothing is valid JSON too", "[trace]") {
  const json trace = json::parse(to_chrome_trace({}, "quote \" and \\ and \n"));
  CHECK(complete_events(trace).empty());
}

TEST_CASE("Copies are on the link's track of their direction, work on its device's", "[trace]") {
  CHECK(track_of(ActivityKind::kUpload, 1) == "PCI-E to GPU 1");
  CHECK(track_of(ActivityKind::kFetchWeights, 0) == "PCI-E to GPU 0");
  CHECK(track_of(ActivityKind::kFetchKv, 2) == "PCI-E to GPU 2");
  CHECK(track_of(ActivityKind::kStoreKv, 0) == "PCI-E from GPU 0");
  CHECK(track_of(ActivityKind::kReadFile, kHost) == "SSD");
  CHECK(track_of(ActivityKind::kFfn, kHost) == "CPU");
  CHECK(track_of(ActivityKind::kFfn, 3) == "GPU 3");
}

TEST_CASE("Every kind, phase and resource has a name of its own", "[trace]") {
  std::set<std::string_view> kinds, phases, resources, keys;
  for (int k = 0; k < kActivityKindCount; ++k) kinds.insert(name(ActivityKind(k)));
  for (int p = 0; p < 4; ++p) phases.insert(name(Phase(p)));
  for (int r = 0; r < kResourceCount; ++r) {
    resources.insert(name(Resource(r)));
    keys.insert(json_key(Resource(r)));
  }
  CHECK(kinds.size() == std::size_t(kActivityKindCount));
  CHECK(phases.size() == 4);
  CHECK(resources.size() == std::size_t(kResourceCount));
  CHECK(keys.size() == std::size_t(kResourceCount));
  CHECK_FALSE(kinds.contains(""));
}
