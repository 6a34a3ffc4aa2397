// The [load] table of a scenario: presets, keys that win over them, and what is refused.

#include "core/scenario/load.hpp"

#include <cmath>
#include <fstream>
#include <string>

#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using fixtures::contains;
using fixtures::error_of;

namespace {

const std::string kHead = "[rig]\ngpu = 'rtx-3060-12gb'\n[model]\nname = 'llama-3.1-8b'\n";

Scenario scenario_with(const std::string& text) {
  auto made = fixtures::scenario(kHead + text);
  if (!made) FAIL(made.error().text());
  return *std::move(made);
}

Load load_of(const std::string& keys) {
  const Scenario s = scenario_with("[load]\n" + keys);
  REQUIRE(s.load);
  return *s.load;
}

// The [load] table begins in line 5, so its first key is in line 6.
void check_refused(const std::string& keys, const std::string& expected) {
  const std::string error = error_of(kHead + "[load]\n" + keys);
  INFO(keys << " gave: " << error);
  CHECK(contains(error, "s.toml:"));
  CHECK(contains(error, expected));
}

TokenCount fixed(const Sourced<LengthDistribution>& lengths) {
  return std::get<FixedLength>(lengths.value).tokens;
}

}  // namespace

TEST_CASE("Without a load there is one request; users alone are a load", "[scenario][load]") {
  CHECK_FALSE(scenario_with("").load);
  CHECK_FALSE(scenario_with("[workload]\nusers = 1\n").load);
  const Scenario s =
      scenario_with("[workload]\nusers = 14\nprompt_tokens = 300\noutput_tokens = 40\n");
  REQUIRE(s.load);
  CHECK(s.load->arrival == ArrivalProcess::kClosed);
  CHECK(s.load->users == 14);
  CHECK(s.load->think_time.value == 0_s);
  CHECK(s.load->requests == 1000);
  CHECK(fixed(s.load->prompt_tokens) == 300);
  CHECK(fixed(s.load->output_tokens) == 40);
  CHECK(check_no_load(s.load));
  CHECK_FALSE(check_no_load({}));
}

TEST_CASE("A request that is assumed need not fit where there is a load", "[scenario][load]") {
  const std::string chat = "[load]\npreset = 'chat'\n";
  for (const char* context : {"2", "200", "512", "700"}) {
    INFO(context);
    const Scenario s = scenario_with(chat + "[workload]\ncontext = " + context + "\n");
    CHECK(std::to_string(s.workload.context) == context);
    CHECK(std::holds_alternative<FixedLength>(s.load->prompt_tokens.value) == false);  // chat's
  }
  const std::string small = "[workload]\nusers = 2\ncontext = 512\n";
  const Scenario s = scenario_with(small);
  CHECK(fixed(s.load->prompt_tokens) + fixed(s.load->output_tokens) == 512);
  CHECK(fixed(scenario_with(small + "output_tokens = 500\n").load->prompt_tokens) == 12);
  // What is stated has to fit.
  CHECK(contains(error_of(kHead + small + "prompt_tokens = 513\n"), "--context 514"));
  CHECK(contains(error_of(kHead + chat + "[workload]\ncontext = 512\noutput_tokens = 600\n"),
                 "--context 601"));
  CHECK(contains(error_of(kHead + "[workload]\ncontext = 512\ndepth = 1\n"), "--context"));
}

TEST_CASE("Every key of a load is read", "[scenario][load]") {
  const Load load = load_of(
      "arrival = 'gamma'\nrate = 2.5\ncv = 3\nrequests = 50\nduration = '60 s'\n"
      "prompt_tokens = { median = 600, p90 = 2700 }\noutput_tokens = { min = 10, max = 30 }\n"
      "turn_tokens = { histogram = [[100, 3], [500, 1]], kind = 'published', source = 'x' }\n"
      "turns = 4\nthink_time = '20 s'\nthink = 'constant'\nshared_prefix_tokens = 400\n"
      "prefix_groups = 7\nprefix_skew = 0.5\nseed = 9\n"
      "slo = { ttft = '2 s', tpot = '80 ms', tpot_percentile = 99 }\n");
  CHECK(load.arrival == ArrivalProcess::kGamma);
  CHECK(load.is_open());
  CHECK(load.rate == 2.5);
  CHECK(load.cv == 3);
  CHECK(load.requests == 50);
  REQUIRE(load.duration);
  CHECK(*load.duration == 60_s);
  CHECK(std::get<LognormalLength>(load.prompt_tokens.value).median == 600);
  CHECK(std::get<UniformLength>(load.output_tokens.value).max == 30);
  CHECK(mean_tokens(load.later_turns()) == Approx(200));
  CHECK(load.turn_tokens->kind == SourceKind::kPublished);
  CHECK(load.turn_tokens->source == "x");
  CHECK(load.turns.value == 4);
  CHECK(load.think_time.value == 20_s);
  CHECK(load.think_is_constant);
  CHECK(load.shared_prefix_tokens.value == 400);
  CHECK(load.prefix_groups == 7);
  CHECK(load.prefix_skew == 0.5);
  CHECK(load.seed == 9);
  REQUIRE((load.slo.ttft && load.slo.tpot));
  CHECK(load.slo.ttft->percentile == 95);
  CHECK(load.slo.tpot->percentile == 99);
  CHECK_FALSE(load.slo.itl);
}

TEST_CASE("Lengths of prompts and answers may be stated together", "[scenario][load]") {
  const Load load = load_of("lengths = [[300, 600, 3], [8000, 100, 1]]\n");
  REQUIRE(load.lengths);
  CHECK(mean_prompt(load) == Approx((3 * 300 + 8000) / 4.0));
  CHECK(mean_output(load) == Approx((3 * 600 + 100) / 4.0));
  // They win over those of a preset, and one that is stated for itself wins over them.
  CHECK(mean_output(load_of("preset = 'chat'\nlengths = [[10, 20, 1]]\n")) == 20);
  CHECK_FALSE(
      scenario_with("[workload]\nprompt_tokens = 50\n[load]\npreset = 'chat'\n").load->lengths);
  check_refused("lengths = [[300, 600]]\n", "expected rows");
  check_refused("lengths = [[300, 0, 1]]\n", "expected rows");
  check_refused("lengths = [[300, 600, 0]]\n", "add up to nothing");
  check_refused("lengths = []\n", "no rows");
  check_refused("lengths = [[300, 600, 1]]\noutput_tokens = 5\n", "leave out one");
  check_refused("trace = 'azure-2023-conv'\nlengths = [[300, 600, 1]]\n", "its own times");
}

TEST_CASE("A load's keys imply how requests arrive", "[scenario][load]") {
  CHECK(load_of("rate = 2\n").arrival == ArrivalProcess::kPoisson);
  CHECK(load_of("users = 3\n").arrival == ArrivalProcess::kClosed);
  CHECK(load_of("trace = 'azure-2023-conv'\n").arrival == ArrivalProcess::kTrace);
  CHECK(load_of("arrival = 'constant'\nrate = 2\n").arrival == ArrivalProcess::kConstant);
  CHECK(load_of("arrival = 'on-off'\nrate = 2\non = '1 s'\noff = '9 s'\n").off == 9_s);
  CHECK(load_of("arrival = 'doubly-stochastic'\nrate = 2\nrate_cv = 0.7\n").rate_cv == 0.7);
  CHECK(load_of("arrival = 'burst'\nrequests = 7\n").requests == 7);
  CHECK(load_of("duration = '10 s'\n").requests == kMaxRequests);
}

TEST_CASE("Keys of a scenario win over those of its preset", "[scenario][load]") {
  const Load chat = load_of("preset = 'chat'\n");
  CHECK(chat.preset == "chat");
  CHECK(chat.users == 1);
  CHECK(chat.think_time.value == 30_s);
  CHECK(chat.turns.value == 3);
  CHECK(chat.think_time.kind == SourceKind::kAssumed);
  CHECK(chat.output_tokens.kind == SourceKind::kPublished);
  CHECK(contains(chat.output_tokens.source, "Azure"));
  const Load own = load_of("preset = 'chat'\nrate = 2\nturns = 5\noutput_tokens = 70\n");
  CHECK(own.arrival == ArrivalProcess::kPoisson);
  CHECK(own.turns.value == 5);
  CHECK(fixed(own.output_tokens) == 70);
  CHECK(own.think_time.value == 30_s);  // between turns
  // As do those of the request that a workload states, which --prompt-tokens sets.
  const Scenario s =
      scenario_with("[workload]\nusers = 9\nprompt_tokens = 4000\n[load]\npreset = 'chat'\n");
  CHECK(fixed(s.load->prompt_tokens) == 4000);
  CHECK(s.load->users == 9);
  CHECK(std::get<LognormalLength>(s.load->output_tokens.value).median == 151);
}

TEST_CASE("Every preset of loads/ is read, and says where its figures are from",
          "[scenario][load]") {
  const auto ids = fixtures::catalogue().ids("loads");
  CHECK(ids.size() >= 6);
  for (const std::string& id : ids) {
    INFO(id);
    const Load load = load_of("preset = '" + id + "'\n");
    CHECK(load.preset == id);
    if (load.arrival == ArrivalProcess::kTrace) continue;
    CHECK_FALSE(load.prompt_tokens.source.empty());
    CHECK_FALSE(load.slo.empty());
  }
  CHECK(load_of("preset = 'azure-2023-code'\n").requests == kMaxRequests);
}

TEST_CASE("A preset may be a file", "[scenario][load]") {
  const std::string file = "load-test-preset.toml";
  std::ofstream(file) << "source = 'made up'\nusers = 4\nthink_time = '1 s'\n";
  CHECK(load_of("preset = '" + file + "'\n").users == 4);
  std::ofstream(file) << "source = 'made up'\nuser = 4\n";
  check_refused("preset = '" + file + "'\n", file + ":2:");
  std::ofstream(file) << "rate = 1\ncv = 2\n";
  check_refused("preset = '" + file + "'\n", "arrivals that are poisson have no cv");
  std::ofstream(file) << "[load]\nrate = 1\n";
  check_refused("preset = '" + file + "'\n", "without a table");
  std::filesystem::remove(file);
  check_refused("preset = '" + file + "'\n", file);
}

TEST_CASE("A lognormal length has its median and its 90 % quantile", "[scenario][load]") {
  const LognormalLength lengths = lognormal_length(600, 2700);
  // Phi(1.2815515655446004) = 0.9
  CHECK(lengths.median * std::exp(1.2815515655446004 * lengths.sigma) == Approx(2700));
  CHECK(mean_tokens(lengths) == Approx(600 * std::exp(lengths.sigma * lengths.sigma / 2)));
  CHECK(mean_tokens(UniformLength{10, 30}) == 20);
  CHECK(mean_tokens(FixedLength{7}) == 7);
  CHECK(mean_tokens(HistogramLength{{{100, 1}, {400, 3}}}) == 325);
}

TEST_CASE("A load is told in a line", "[scenario][load]") {
  CHECK(text(load_of("preset = 'chat'\n")) == "chat: 1,200 in, 220 out, think 30 s, 3 turns");
  CHECK(text(load_of("rate = 1\nprompt_tokens = 1234\noutput_tokens = 8\n")) ==
        "poisson: 1,200 in, 8 out");
  CHECK(text(load_of("preset = 'azure-2023-conv'\n")) == "trace azure-2023-conv");
  // A turn follows turns - 1 others in the mean: 100 + 2 x (50 + 100).
  CHECK(mean_prompt(load_of("turns = 3\nprompt_tokens = 100\noutput_tokens = 50\n")) == 400);
}

TEST_CASE("Limits of latency are read from a text", "[scenario][load]") {
  const auto slo = parse_slo("ttft=2s@95,tpot=80ms@99.9,itl=0.2s,e2e=30 s@50");
  REQUIRE(slo);
  CHECK(slo->ttft->limit == 2_s);
  CHECK(slo->tpot->limit.value == Approx(0.08));
  CHECK(slo->tpot->percentile == 99.9);
  CHECK(slo->itl->percentile == 95);
  CHECK(slo->e2e->percentile == 50);
  const auto again = parse_slo(text(*slo));
  REQUIRE(again);
  CHECK(text(*again) == text(*slo));
  for (const char* bad : {"", "ttft", "ttft=", "ttft=2", "ttft=-2s", "ttft=nan s", "ttft=0s",
                          "ttft=2s@", "ttft=2s@0", "ttft=2s@101", "ttft=2s@nan", "ttft=2s@95x",
                          "ttft=2s,ttft=3s", "ttft=2s,", "tbt=2s", "=2s", "ttft=inf s"}) {
    INFO(bad);
    CHECK_FALSE(parse_slo(bad));
  }
}

TEST_CASE("Limits have names", "[scenario][load]") {
  const Load load = load_of("slo = 'mlperf-llama-3.1-8b-interactive'\n");
  CHECK(text(load.slo) == "ttft=500ms@99,tpot=30ms@99");
  for (const std::string& id : fixtures::catalogue().ids("loads/slo"))
    CHECK(load_of("slo = '" + id + "'\n").slo.ttft->percentile == 99);
  CHECK(fixtures::catalogue().ids("loads/slo").size() == 11);
  check_refused("slo = 'mlperf-llama-3.1-8b'\n", "mlperf-llama-3.1-8b-server");
  check_refused("slo = 'ttft=2'\n", "the unit is missing");
  check_refused("slo = { ttft_percentile = 95 }\n", "a percentile of no limit");
  check_refused("slo = { ttft = '2 s', tppt = '1 s' }\n", "tpot");
  check_refused("slo = 3\n", "expected text");
}

TEST_CASE("Loads that contradict themselves are refused", "[scenario][load]") {
  check_refused("rate = 2\nusers = 3\n", "have no rate of their own");
  check_refused("arrival = 'closed'\nrate = 2\n", "have no rate of their own");
  check_refused("arrival = 'poisson'\n", "need a rate");
  check_refused("arrival = 'burst'\nrate = 2\n", "a burst arrives at once");
  check_refused("arrival = 'poisson'\nrate = 2\nusers = 3\n", "have no users");
  check_refused("rate = 2\ncv = 3\n", "arrivals that are poisson have no cv");
  check_refused("rate = 2\non = '1 s'\n", "have no on");
  check_refused("rate = 2\nrate_cv = 1\n", "have no rate_cv");
  check_refused("users = 2\nrate_scale = 2\n", "have no rate_scale");
  check_refused("arrival = 'trace'\n", "no trace is named");
  check_refused("trace = 'azure-2023-conv'\nrate = 2\n", "its own times");
  check_refused("trace = 'azure-2023-conv'\nturns = 2\n", "its own times");
  check_refused("trace = 'azure-2023-con'\n", "azure-2023-con");
  check_refused("preset = 'chatt'\n", "chat");
  CHECK(contains(error_of(kHead + "[workload]\nusers = 3\n[load]\nrate = 2\n"), "have no users"));
  CHECK(contains(error_of(kHead + "[workload]\ndepth = 3\n[load]\nrate = 2\n"), "empty cache"));
}

TEST_CASE("Figures of a load out of range are refused", "[scenario][load]") {
  for (const char* key : {"rate", "users", "requests", "turns", "prefix_groups", "prompt_tokens",
                          "output_tokens", "turn_tokens"}) {
    check_refused(std::string(key) + " = 0\n", key);
    check_refused(std::string(key) + " = -1\n", key);
    check_refused(std::string(key) + " = nan\n", key);
    check_refused(std::string(key) + " = 9223372036854775807\n", key);
  }
  check_refused("arrival = 'gamma'\nrate = 1\ncv = 0\n", "out of range");
  check_refused("seed = -1\n", "out of range");
  check_refused("shared_prefix_tokens = 1.5\n", "whole number");
  check_refused("prefix_skew = -1\n", "out of range");
  check_refused("think_time = 30\n", "unit");
  check_refused("think_time = '-1 s'\n", "think_time");
  check_refused("duration = '0 s'\n", "plausible");
  check_refused("think = 'normal'\n", "exponential, constant");
  check_refused("arrival = 'erlang'\n", "poisson");
  check_refused("arrival = 'weibull'\n", "need a rate");
  check_refused("arrival = 'doubly-stochastic'\nrate = 1e-5\nrate_period = '1 s'\n", "too short");
  check_refused("arrival = 'on-off'\nrate = 1e-5\non = '1 s'\noff = '1 s'\n", "too short");
  check_refused("rat = 2\n", "rate");
}

TEST_CASE("Lengths that are none are refused", "[scenario][load]") {
  for (const auto& [value, expected] :
       {std::pair{"'long'", "expected a whole number"},
        {"1.5", "expected a whole number"},
        {"{ }", "states no length"},
        {"{ min = 5 }", "missing"},
        {"{ min = 5, max = 4 }", "less than min"},
        {"{ median = 100 }", "missing"},
        {"{ median = 100, p90 = 50 }", "less than the median"},
        {"{ median = nan, p90 = 50 }", "out of range"},
        {"{ median = 1, p90 = 2, p99 = 3 }", "p99"},
        {"{ min = 1, max = 2, median = 3 }", "median"},
        {"{ histogram = 3 }", "expected lists"},
        {"{ histogram = [] }", "add up to nothing"},
        {"{ histogram = [[1, 0]] }", "nothing"},
        {"{ histogram = [[0, 1]] }", "rows of tokens"},
        {"{ histogram = [[1.5, 1]] }", "rows of"},
        {"{ histogram = [[1, 1, 1]] }", "rows of"},
        {"{ histogram = [[1, -1]] }", "expected lists"},
        {"{ histogram = [1, 2] }", "expected lists"},
        {"{ min = 1, max = 2, kind = 'guess' }", "measured, fitted"}})
    check_refused(std::string("prompt_tokens = ") + value + "\n", expected);
}
