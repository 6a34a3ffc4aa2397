// A whole report: what its figures promise of each other.
#include "sim/simulate.hpp"
#include "perfmodel/memory.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "sim/machine/graph.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::sim;
using fixtures::Settings;
using fixtures::shared_scenario;
using fixtures::with;

namespace {

Report forecast(const Settings& settings, SimulateOptions options = {}) {
  return simulate(shared_scenario(settings), options);
}

SimulateOptions without_cliffs(Fidelity fidelity = Fidelity::kFinal) {
  SimulateOptions options;
  options.fidelity = fidelity;
  options.cliffs = false;
  return options;
}

const Settings kPaged = {
    {"runtime.name", "rigcast"}, {"kv.policy", "paged"}, {"rig.vram_capacity", "6.1 GiB"}};

Settings any_settings() {
  return GENERATE_COPY(
      Settings{}, Settings{{"placement.gpu_layers", "20"}}, kPaged,
      with(kPaged, {{"workload.start", "cold"}}), Settings{{"placement.gpu_layers", "0"}},
      Settings{{"kv.policy", "ram"}},
      Settings{{"rig.gpu", "[\"2xrtx-3060-12gb\"]"}, {"workload.start", "resident"}},
      Settings{{"workload.output_tokens", "1"}});
}

}  // namespace

TEST_CASE("TTFT grows from resident to warm to cold, and its parts add up", "[simulate]") {
  const Report r = forecast(any_settings(), without_cliffs());
  REQUIRE(r.fits);
  REQUIRE((r.resident && r.warm && r.cold));
  CHECK(r.resident->load.value == 0);
  CHECK(r.warm->total() >= r.resident->total());
  CHECK(r.cold->total() >= r.warm->total());
  for (const auto& b : {*r.resident, *r.warm, *r.cold}) {
    const Seconds sum = b.load + b.tokenize + b.transfer + b.prefill + b.sample;
    CHECK(b.total().value == Approx(sum.value).epsilon(1e-15));
    for (const Seconds part : {b.load, b.tokenize, b.transfer, b.prefill, b.sample})
      CHECK(part.value >= 0);
    CHECK(b.prefill.value > 0);
  }
  CHECK((r.warm->total() - r.warm->load).value == Approx(r.resident->total().value).epsilon(1e-12));
}

TEST_CASE("speeds, percentiles and shares are consistent with each other", "[simulate]") {
  const Report r = forecast(any_settings(), without_cliffs());
  REQUIRE(r.fits);
  CHECK(r.decode_tokens_per_s == Approx(1 / r.tpot.mean.value).epsilon(1e-6));
  CHECK(r.tpot.p50 <= r.tpot.p90);
  CHECK(r.tpot.p90 <= r.tpot.p99);
  for (const double share : r.utilisation) {
    CHECK(share >= 0);
    CHECK(share <= 1);
  }
  CHECK(r.decode_bound.share > 0);
  CHECK(r.decode_bound.share <= 1);
  REQUIRE(r.tokens_per_s_interval);
  CHECK(r.tokens_per_s_interval->lo < r.decode_tokens_per_s);
  CHECK(r.tokens_per_s_interval->hi > r.decode_tokens_per_s);
  REQUIRE(r.ttft_interval);
  CHECK(r.ttft_interval->lo < r.ttft()->total().value);
  CHECK(r.ttft_interval->hi > r.ttft()->total().value);
}

namespace {

bool warns(const Report& r, const std::string& part) {
  return std::ranges::any_of(
      r.warnings, [&](const std::string& w) { return w.find(part) != std::string::npos; });
}

// High over low end of the decode interval.
double width(const Report& r) { return r.tokens_per_s_interval->hi / r.tokens_per_s_interval->lo; }

}  // namespace

TEST_CASE("A family that nobody measured has a wider interval, and the report says so",
          "[simulate]") {
  const auto on = [](const char* gpu, Settings more = {}) {
    return forecast(with({{"rig.gpu", gpu}, {"workload.start", "resident"}}, more),
                    without_cliffs());
  };
  const Report measured = on("rtx-3060-12gb");
  CHECK(measured.unmeasured.decode.empty());
  CHECK(measured.unmeasured.prefill.empty());
  CHECK_FALSE(warns(measured, "left out of the fit"));
  for (const auto& [gpu, family] :
       {std::pair{"b200", "blackwell-dc"}, {"mi210", "cdna2"}, {"k80", "kepler"}}) {
    INFO(gpu);
    const Report r = on(gpu);
    CHECK(r.unmeasured.decode == std::vector<std::string>{family});
    CHECK(r.unmeasured.prefill == std::vector<std::string>{family});
    REQUIRE_FALSE(r.warnings.empty());
    CHECK(r.warnings.front().find(std::string("no measured run of ") + family) == 0);
    CHECK(width(r) > width(measured));
  }
}

TEST_CASE("What the project's own engine was not run on has assumed intervals, and says so",
          "[simulate]") {
  const auto on = [](const char* gpu) {
    return forecast({{"runtime.name", "rigcast"}, {"rig.gpu", gpu}, {"workload.start", "resident"}},
                    without_cliffs());
  };
  const Report measured = on("h200-sxm"), other = on("rtx-3090");
  CHECK(measured.unmeasured.decode.empty());
  CHECK_FALSE(warns(measured, "no measured run"));
  CHECK(other.unmeasured.prefill == std::vector<std::string>{"ampere"});
  CHECK(warns(other, "no measured run of ampere GPUs: the intervals are assumed"));
  CHECK(width(other) > 1.5 * width(measured));
}

TEST_CASE("Neighbouring layers that are bound by different parts are merged without loss of time",
          "[simulate]") {
  // Weights of Q4_K_M differ from layer to layer.
  for (const char* tokens : {"19", "20", "21"}) {
    const auto prefill = [&](Fidelity fidelity) {
      return forecast({{"runtime.name", "rigcast"},
                       {"rig.gpu", "a100-sxm-80gb"},
                       {"model.name", "deepseek-v2-lite"},
                       {"placement.gpu_layers", "28"},
                       {"workload.start", "resident"},
                       {"workload.prompt_tokens", tokens}},
                      without_cliffs(fidelity))
          .prefill_tokens_per_s;
    };
    INFO(tokens);
    CHECK(prefill(Fidelity::kSweep) == Approx(prefill(Fidelity::kExact)).epsilon(0.01));
  }
}

TEST_CASE("Runs on a board tell nothing of decode on a PC, and the note says that they exist",
          "[simulate]") {
  // The rows of Polaris are of a board alone; those of Turing on a board have no prompts.
  const Settings polaris{{"rig.gpu", "rx-580-8gb"}, {"workload.start", "resident"}};
  CHECK(warns(forecast(polaris, without_cliffs()), "polaris GPUs on PCs and servers"));
  const Report board = forecast(
      {{"rig.gpu", "rtx-2080-ti"}, {"rig.cpu", "raspberry-pi-5"}, {"workload.start", "resident"}},
      without_cliffs());
  CHECK(board.unmeasured.decode.empty());
  CHECK(board.unmeasured.prefill == std::vector<std::string>{"turing"});
  CHECK(warns(board, "no measured prompt of turing GPUs"));
}

TEST_CASE("A GPU that new builds have no code for carries a note", "[simulate]") {
  const auto on = [](const char* gpu, const char* key, const char* value) {
    return forecast({{"rig.gpu", gpu}, {key, value}}, without_cliffs());
  };
  const char* const kStart = "workload.start";
  CHECK(warns(on("m40-12gb", kStart, "resident"), "CUDA 13 and later have no code for maxwell"));
  CHECK(warns(on("k80", kStart, "resident"), "CUDA 12 and later have no code for kepler"));
  CHECK(warns(on("p40", kStart, "resident"), "this needs a build with CUDA 12"));
  CHECK(warns(on("p40", "runtime.name", "rigcast"), "the engine of rigcast has no code"));
  CHECK_FALSE(warns(on("p40", "runtime.backend", "vulkan"), "CUDA"));
  CHECK_FALSE(warns(on("rtx-2080-ti", kStart, "resident"), "CUDA"));
}

TEST_CASE("the same scenario gives the same report again", "[simulate]") {
  const Settings settings = any_settings();
  const Report one = forecast(settings, without_cliffs());
  forecast({{"rig.gpu", "rtx-4090"}, {"rig.ram", "2xddr5-6000:64GiB"}}, without_cliffs());
  const Report two = forecast(settings, without_cliffs());
  // Only the simulated clock has moved on, and with it the last bits of every time.
  CHECK(two.decode_tokens_per_s == Approx(one.decode_tokens_per_s).epsilon(1e-9));
  CHECK(two.ttft()->total().value == Approx(one.ttft()->total().value).epsilon(1e-9));
}

TEST_CASE("every activity that a report starts is finished", "[simulate]") {
  // A graph that cannot end throws; here that activities do run, in every mode.
  for (const Fidelity fidelity : {Fidelity::kSweep, Fidelity::kFinal, Fidelity::kExact}) {
    const std::uint64_t before = completed_activities();
    CHECK(forecast(kPaged, without_cliffs(fidelity)).fits);
    CHECK(completed_activities() > before);
  }
}

TEST_CASE("a scenario that does not fit is a report that says what is missing", "[simulate]") {
  const Report r = forecast({{"rig.vram_capacity", "4 GiB"}});
  CHECK_FALSE(r.fits);
  REQUIRE(r.errors.size() == 1);
  CHECK(r.errors.front().find("GPU 0") != std::string::npos);
  CHECK(r.decode_tokens_per_s == 0);
  CHECK_FALSE(r.resident);
}

TEST_CASE("a hot window that VRAM cannot hold does not fit", "[simulate]") {
  const Report r = forecast(with(kPaged, {{"kv.hot_tokens", "7000"},
                                          {"workload.prompt_tokens", "7000"},
                                          {"workload.context", "8192"}}));
  CHECK_FALSE(r.fits);
}

TEST_CASE("a paged cache's cliff begins with the blocks that have left VRAM", "[simulate]") {
  const char* evict = GENERATE("oldest", "lru");
  const Report r = forecast(with(kPaged, {{"kv.evict", evict}, {"kv.prefetch", "false"}}));
  REQUIRE(r.fits);
  REQUIRE(r.memory.resident_tokens);
  const TokenCount resident = *r.memory.resident_tokens;
  REQUIRE(resident > 512);
  REQUIRE(resident < 8000);
  const auto cliff = std::ranges::find(r.cliffs, CliffAxis::kPosition, &Cliff::axis);
  REQUIRE(cliff != r.cliffs.end());
  // One is on its way while the next fills, and what the first costs may still be on the trend.
  CHECK(cliff->at_tokens >= resident);
  CHECK(cliff->at_tokens <= resident + 2 * r.scenario->kv.block_tokens);
  CHECK(cliff->before_tokens_per_s > cliff->after_tokens_per_s);
  CHECK(cliff->tier == Tier::kVram);
}

TEST_CASE("only where speed falls within two blocks it is a step", "[simulate]") {
  const auto falls = [](const char* evict) {
    const Report r = forecast(with(kPaged, {{"kv.evict", evict}, {"kv.prefetch", "false"}}));
    std::vector<Cliff> out;
    std::ranges::copy_if(r.cliffs, std::back_inserter(out),
                         [](const Cliff& c) { return c.axis == CliffAxis::kPosition; });
    return std::pair(out, r.scenario->workload.context);
  };
  // One block after another comes back over the link: time grows up to the context's end.
  const auto [oldest, context] = falls("oldest");
  REQUIRE(oldest.size() == 1);
  REQUIRE(oldest[0].until_tokens);
  CHECK(*oldest[0].until_tokens > context - 512);
  // All blocks come back from the first one on; from there on, time grows by each further one.
  const auto [lru, same] = falls("lru");
  REQUIRE(lru.size() == 2);
  CHECK_FALSE(lru[0].until_tokens);
  REQUIRE(lru[1].until_tokens);
  CHECK(lru[1].at_tokens > lru[0].at_tokens);
  CHECK(lru[1].before_tokens_per_s == lru[0].after_tokens_per_s);
  CHECK(lru[1].after_tokens_per_s <= oldest[0].after_tokens_per_s);  // it reads no fewer
}

TEST_CASE("a cache that stays in VRAM has no cliff along the run", "[simulate]") {
  const Report r = forecast({});
  CHECK(std::ranges::none_of(r.cliffs,
                             [](const Cliff& c) { return c.axis == CliffAxis::kPosition; }));
}

TEST_CASE("the context cliff is the longest context that fits", "[simulate]") {
  const Report r = forecast(Settings{{"placement.gpu_layers", "33"}});
  REQUIRE(r.max_context > 0);
  const auto cliff = std::ranges::find(r.cliffs, CliffAxis::kContext, &Cliff::axis);
  REQUIRE(cliff != r.cliffs.end());
  CHECK(cliff->at_tokens == r.max_context);
  Scenario s = *r.scenario;
  s.workload.context = r.max_context;
  CHECK(plan_memory(s, r.placement, s.workload.context).fits());
  s.workload.context += s.runtime.memory.kv_padding;
  CHECK_FALSE(plan_memory(s, r.placement, s.workload.context).fits());
}

TEST_CASE("speeds by position come at the positions asked for", "[simulate]") {
  SimulateOptions options = without_cliffs();
  options.positions = {0, 1000, 8192};
  const Report r = forecast({}, options);
  REQUIRE(r.by_position.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(r.by_position[i].tokens == options.positions[i]);
  CHECK(r.by_position[0].tokens_per_s > r.by_position[1].tokens_per_s);
  CHECK(r.by_position[1].tokens_per_s > r.by_position[2].tokens_per_s);
  CHECK_FALSE(r.timeline.empty());
}

TEST_CASE("trace events follow each other on their tracks inside the run", "[simulate]") {
  const Settings settings = any_settings();
  std::vector<TraceEvent> events;
  SimulateOptions options = without_cliffs();
  options.trace = &events;
  const Report r = forecast(settings, options);
  REQUIRE_FALSE(events.empty());
  // Load, prefill and the first eight tokens at most; the prompt is tokenized before that.
  const Seconds first_token = r.ttft()->total() - r.ttft()->tokenize;
  const double end = (first_token + r.tpot.p99 * 9).value;
  std::map<std::string, double> last_start;
  for (const TraceEvent& e : events) {
    CAPTURE(e.track, name(e.kind), e.layer, e.token);
    CHECK(e.start_s >= 0);
    CHECK(e.finish_s >= e.start_s);
    CHECK(e.finish_s <= end);
    CHECK(e.start_s >= last_start[e.track]);
    last_start[e.track] = e.start_s;
  }
}

TEST_CASE("a trace's decoded tokens take as long as the report says", "[simulate]") {
  std::vector<TraceEvent> events;
  SimulateOptions options = without_cliffs(Fidelity::kExact);
  options.trace = &events;
  const Report r = forecast(
      with(kPaged, {{"workload.prompt_tokens", "6000"}, {"workload.output_tokens", "8"}}), options);
  std::vector<double> ends;  // of a token: when it is sampled
  TokenCount position = 6000;
  for (const TraceEvent& e : events)
    if (e.phase == Phase::kDecode && e.kind == ActivityKind::kSample) {
      ends.push_back(e.finish_s);
      CHECK(e.token == position++);
    }
  REQUIRE(ends.size() == 7);  // the prompt gives the first one
  // Operations one by one in the trace, joined where they only follow each other in the report.
  const double period = (ends.back() - ends[1]) / double(ends.size() - 2);
  CHECK(period == Approx(r.tpot.p50.value).epsilon(0.003));
}
