// The timeline of a load says what the report sums.
#include "sim/serving/watch/load_trace.hpp"

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/folder.hpp"
#include "tests/sim/serving/serving_fixture.hpp"

using namespace rigcast;
using rigcast::test::Folder;
using Json = nlohmann::json;

namespace {

constexpr double kNanosecond = 1e-9;

RamTier tier() {
  RamTier tier;
  tier.capacity = Bytes{8e6};
  tier.bytes_of = [](TokenCount n) { return Bytes{1000.0 * double(n)}; };
  tier.to_ram = tier.to_gpu = BytesPerSecond{1e6};
  tier.layers = 4;
  return tier;
}

SchedulerPolicy blocks(RamLoad load, StepOrder order) {
  SchedulerPolicy p;
  p.order = order;
  p.ram_load = load;
  p.sequences = 8;
  p.step_tokens = 64;
  return p;
}

SchedulerPolicy slots() {
  SchedulerPolicy p;
  p.order = StepOrder::kDecodesFirst;
  p.reserve = KvReserve::kStep;
  p.layout = KvLayout::kSlots;
  p.ram_load = RamLoad::kBlocking;
  p.sequences = 4;
  p.step_tokens = 64;
  return p;
}

struct Traced {
  ServingRun run;
  Json events;
  std::string left_out;
};

Traced traced(const SchedulerPolicy& policy, std::uint64_t max_events = LoadTrace::kMaxEvents) {
  const Folder folder;
  const auto file = folder / "load.json";
  constexpr TokenCount kCache = 1200;
  const bool has_slots = policy.layout == KvLayout::kSlots;
  const std::size_t units =
      has_slots ? policy.sequences : std::size_t(kCache / policy.block_tokens);
  auto out = TraceStream::create(file, "a \"quoted\" title");
  REQUIRE(out);
  LoadTrace trace(*out, units, max_events);
  auto run = serve(fixtures::two_turns(300, Seconds{0.11}), policy, kCache, fixtures::step_time,
                   tier(), &trace);
  REQUIRE(run);
  trace.finish();
  CHECK_FALSE(std::filesystem::exists(file));  // it has another name until it is whole
  REQUIRE_FALSE(out->finish());
  Json json = Json::parse(std::ifstream(file));
  return {*std::move(run), std::move(json["traceEvents"]), trace.left_out()};
}

struct Sums {
  std::int64_t prompt_tokens = 0, answer_tokens = 0, steps_of_answers = 0, spans = 0, waits = 0;
  double to_ram = 0, from_ram = 0, waited = 0;  // seconds
  double bytes = 0;
  std::map<std::string, int> tracks;
};

// Also checks that what one track does, it does one after the other.
Sums sums_of(const Json& events) {
  Sums sums;
  std::map<int, std::vector<std::pair<double, double>>> spans;
  std::map<int, std::string> names;
  for (const Json& e : events) {
    const std::string phase = e["ph"], name = e.value("name", "");
    if (phase == "M" && name == "thread_name") names[e["tid"]] = e["args"]["name"];
    if (phase == "b") sums.waited -= double(e["ts"]) / 1e6;
    if (phase == "e") sums.waited += double(e["ts"]) / 1e6;
    if (phase == "e") ++sums.waits;
    if (phase != "X") continue;
    ++sums.spans;
    const double seconds = double(e["dur"]) / 1e6;
    spans[e["tid"]].emplace_back(double(e["ts"]), double(e["ts"]) + double(e["dur"]));
    const Json& args = e["args"];
    if (name == "prompt") sums.prompt_tokens += std::int64_t(args["tokens"]);
    if (name == "answer") sums.answer_tokens += std::int64_t(args["tokens"]);
    if (name == "answer") sums.steps_of_answers += std::int64_t(args["steps"]);
    if (name == "copies to RAM") sums.to_ram += seconds;
    if (name == "copies from RAM") sums.from_ram += seconds;
    if (args.contains("bytes")) sums.bytes += double(args["bytes"]);
  }
  for (auto& [track, of] : spans) {
    INFO(names[track]);
    CHECK(names.contains(track));
    std::ranges::sort(of);
    // Figures of the file have three digits behind the microsecond; they are read as doubles.
    bool overlaps = false;
    for (std::size_t i = 1; i < of.size(); ++i)
      overlaps = overlaps || of[i].first < of[i - 1].second - 1e-6;
    CHECK_FALSE(overlaps);
  }
  for (const auto& [track, name] : names) ++sums.tracks[name.substr(0, name.rfind(' '))];
  return sums;
}

}  // namespace

TEST_CASE("The timeline of a load has the sums of its report", "[serving][trace]") {
  for (const SchedulerPolicy& policy :
       {blocks(RamLoad::kAhead, StepOrder::kAdmission),
        blocks(RamLoad::kByLayer, StepOrder::kPromptsFirst), slots()}) {
    INFO(int(policy.ram_load));
    const auto [run, events, left_out] = traced(policy);
    const Sums sums = sums_of(events);
    CHECK(left_out.empty());
    CHECK(sums.prompt_tokens + sums.answer_tokens == run.computed_tokens);
    CHECK(sums.answer_tokens == sums.steps_of_answers);
    std::int64_t prompts = 0, hits = 0, preemptions = 0;
    for (std::size_t i = 0; i < run.load.size(); ++i) {
      prompts += run.load[i].prompt;
      hits += run.requests[i].hit + run.requests[i].ram_hit;
      preemptions += run.requests[i].preemptions;
    }
    // All of a prompt but what the cache and RAM have of it, and what preemptions lost.
    if (preemptions == 0) CHECK(sums.prompt_tokens == prompts - hits);
    if (preemptions > 0) CHECK(sums.prompt_tokens > prompts - hits);
    // Every end of a span is rounded by half a nanosecond.
    const double rounding = kNanosecond * double(sums.spans + sums.waits);
    CHECK(std::abs(sums.to_ram - run.to_ram_busy.value) < rounding);
    CHECK(std::abs(sums.from_ram - run.to_gpu_busy.value) < rounding);
    CHECK(std::abs(sums.waited - run.waiting) < rounding + 1e-9 * run.waiting);
    CHECK(sums.bytes == Approx((run.to_ram + run.to_gpu).value));
    CHECK(run.to_gpu.value > 0);
    const bool has_slots = policy.layout == KvLayout::kSlots;
    CHECK(sums.tracks.at(has_slots ? "slot" : "sequence") == int(run.peak_running));
  }
}

TEST_CASE("A timeline that is full says what it leaves out", "[serving][trace]") {
  const auto [run, events, left_out] = traced(blocks(RamLoad::kAhead, StepOrder::kAdmission), 50);
  const Sums sums = sums_of(events);
  CHECK(sums.spans + sums.waits <= 50);
  CHECK(left_out.find("full with 50 events") != std::string::npos);
  CHECK(left_out.find("load.requests") != std::string::npos);
}
