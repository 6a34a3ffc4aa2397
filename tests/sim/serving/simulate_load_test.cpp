// Loads on the server of a scenario.
#include "sim/serving/simulate_load.hpp"

#include "perfmodel/serial_time.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"
#include "tests/sim/serving/load_fixture.hpp"

using namespace rigcast;
using fixtures::figures_of;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::with;

namespace {

const Settings kOneUser = {{"workload.prompt_tokens", "500"},
                           {"workload.output_tokens", "100"},
                           {"load.users", "1"},
                           {"load.requests", "20"},
                           {"scheduler.slots", "1"},
                           {"scheduler.prefix_cache", "false"}};

}  // namespace

TEST_CASE("A single user of a server has the speeds of a single request", "[serving]") {
  const Scenario s = scenario(kOneUser);
  const ServingFigures f = figures_of(kOneUser);
  const SerialForecast alone(s);
  const RuntimeProfile::Server& server = *s.runtime.server;
  const double sampling = server.logit.value.value * double(s.model.vocabulary);
  // Prompts in cells of 256 tokens are half of one longer in the mean.
  CHECK(f.ttft.p50 ==
        Approx(server.request.value.value + alone.prompt().value + sampling).epsilon(0.02));
  CHECK(f.tpot.p50 == Approx(alone.mean_token().value + sampling).epsilon(0.01));
  CHECK(f.running == Approx(f.busy).epsilon(0.01));
  CHECK(f.cache.capacity == 8192);
  CHECK(f.state == ServingState::kStable);
}

TEST_CASE("What vLLM's scheduler takes for a step is in a single request's speeds, too",
          "[serving]") {
  const Settings settings = {{"workload.prompt_tokens", "500"},
                             {"workload.output_tokens", "100"},
                             {"load.users", "1"},
                             {"load.requests", "20"},
                             {"scheduler.prefix_cache", "false"},
                             {"runtime.name", "vllm"},
                             {"rig.gpu", "[\"rtx-4090\"]"},
                             {"model.quant", "BF16"}};
  const Scenario s = scenario(settings);
  const ServingFigures f = figures_of(settings);
  const SerialForecast alone(s);
  CHECK(s.runtime.server->step.value > Seconds{1e-4});
  CHECK(f.tpot.p50 == Approx(alone.mean_token().value).epsilon(0.01));
  CHECK(f.ttft.p50 ==
        Approx(s.runtime.server->request.value.value + alone.prompt().value).epsilon(0.02));
}

TEST_CASE("GPUs that share every layer are faster than one, and slower than their sum",
          "[serving]") {
  const auto decode = [](const char* gpus, const char* latency) {
    return SerialForecast(scenario({{"rig.gpu", gpus},
                                    {"rig.all_reduce_latency", latency},
                                    {"runtime.name", "vllm"},
                                    {"model.quant", "BF16"}}))
        .mean_token()
        .value;
  };
  const char* const kTwo = "[\"h100-sxm\", \"h100-sxm\"]";
  const double one = decode("[\"h100-sxm\"]", "5 us"), two = decode(kTwo, "5 us");
  CHECK(two < one);
  CHECK(two > one / 2);
  // Two all-reduces in each of 32 layers, and one that gathers logits.
  CHECK(decode(kTwo, "25 us") - two == Approx(65 * 20e-6).epsilon(1e-6));
}

TEST_CASE("Weights of 8 bits are multiplied no slower than of 16 where units have them",
          "[serving]") {
  const auto prompt = [](const char* gpu, const char* quant) {
    return SerialForecast(scenario({{"rig.gpu", gpu},
                                    {"runtime.name", "vllm"},
                                    {"model.quant", quant},
                                    {"workload.prompt_tokens", "2048"}}))
        .prompt()
        .value;
  };
  for (const char* gpu : {"[\"rtx-4090\"]", "[\"h100-sxm\"]", "[\"rtx-5090\"]"})
    CHECK(prompt(gpu, "FP8") < 1.001 * prompt(gpu, "BF16"));
  // Where they are turned into 16 bits, as all of 4 bits are, they are no faster.
  CHECK(prompt("[\"rtx-3090\"]", "FP8") > 0.99 * prompt("[\"rtx-3090\"]", "BF16"));
  CHECK(prompt("[\"h100-sxm\"]", "INT4") > 0.99 * prompt("[\"h100-sxm\"]", "BF16"));
}

TEST_CASE("More users get more tokens together, each of them more slowly", "[serving]") {
  double throughput = 0, tpot = 0;
  for (const char* users : {"1", "2", "4"}) {
    const ServingFigures f = figures_of(with(kOneUser, {{"load.users", users},
                                                        {"scheduler.slots", users},
                                                        {"workload.context", "1024"},
                                                        {"load.requests", "200"}}));
    CHECK(f.output_tokens_per_s > throughput);
    CHECK(f.tpot.p50 > tpot);
    throughput = f.output_tokens_per_s;
    tpot = f.tpot.p50;
    CHECK(f.waiting < 0.01);
  }
  // Beyond the slots users wait.
  const ServingFigures f = figures_of(with(kOneUser, {{"load.users", "8"},
                                                      {"scheduler.slots", "4"},
                                                      {"workload.context", "1024"},
                                                      {"load.requests", "200"}}));
  CHECK(f.output_tokens_per_s == Approx(throughput).epsilon(0.02));
  CHECK(f.bound_by() == ServingLimit::kSequences);
  CHECK(f.waiting == Approx(4).epsilon(0.05));
}

TEST_CASE("The same load on the same server gives the same figures", "[serving]") {
  const Settings load = {{"load.preset", "chat"}, {"load.users", "6"}, {"load.requests", "200"}};
  const ServingFigures a = figures_of(load), b = figures_of(load);
  CHECK(a.ttft.p95 == b.ttft.p95);
  CHECK(a.duration == b.duration);
  CHECK(a.cache.hit_rate > 0.2);  // conversations go on in their slots
}

TEST_CASE("Steps between the lengths that are computed are as if computed", "[serving]") {
  // Eight sequences of up to 32,768 tokens: VRAM has room for a part of their blocks.
  const Scenario s = scenario({{"runtime.name", "rigcast"},
                               {"kv.policy", "paged"},
                               {"workload.context", "32768"},
                               {"scheduler.max_sequences", "8"},
                               {"load.users", "8"}});
  const auto made = LoadSimulation::make(s);
  REQUIRE(made);
  const BatchTime exact(s, made->placement(), made->memory());
  StepCost cost(s, made->placement(), made->memory());
  REQUIRE(exact.cold_tokens(8, 256) == 0);
  TokenCount kink = 256;  // with which all are in VRAM
  while (exact.cold_tokens(8, kink + 1) == 0) ++kink;
  REQUIRE(kink < 32768);
  for (const TokenCount cached : {kink / 2, kink - 100, kink, kink + 1, kink + 100, kink * 3 / 2}) {
    INFO(cached << " of " << kink);
    StepWork work;
    work.decodes = 8;
    work.decodes_cached = 8 * double(cached);
    const std::vector<SequencePart> parts(8, {cached, 1});
    CHECK(cost(work).time.value == Approx(exact.of(parts).value).epsilon(0.01));
  }
}

TEST_CASE("Steps of a server whose memory is short are slow from the token on that has no room",
          "[serving][pressure]") {
  Settings settings = {{"rig.gpu", "[]"},
                       {"rig.os", "linux"},
                       {"model.name", "llama-3.1-8b"},
                       {"runtime.name", "rigcast"},
                       {"workload.context", "8192"},
                       {"scheduler.max_sequences", "4"},
                       {"scheduler.pool_tokens", "32768"},
                       {"memory.limit", "6 GiB"},
                       {"memory.swap", "8 GiB"},
                       {"load.users", "4"},
                       {"load.requests", "8"},
                       {"workload.prompt_tokens", "4000"}};
  const Scenario s = scenario(settings);
  auto made = LoadSimulation::make(s);
  REQUIRE(made);
  const BatchTime exact(s, made->placement(), made->memory());
  StepCost cost(s, made->placement(), made->memory());
  TokenCount last = 256;
  while (last < 8192 && exact.paging(4, last + 1).lacking.value <= 0) ++last;
  REQUIRE(last < 8000);
  for (const TokenCount cached : {last - 100, last, last + 1, last + 100}) {
    INFO(cached << " of " << last);
    StepWork work;
    work.decodes = 4;
    work.decodes_cached = 4 * double(cached);
    const sim::StepUse use = cost(work);
    CHECK((use.paged.value > 0) == (cached > last));
    CHECK(use.time.value ==
          Approx(exact.of(std::vector<SequencePart>(4, {cached, 1})).value).epsilon(0.01));
  }
  CHECK(made->paging_note().empty());
  REQUIRE(made->figures(*s.load));
  CHECK(made->paging_note().starts_with("memory is short in "));
}

TEST_CASE("A prompt's end takes its time in the step that has it", "[serving]") {
  Scenario s = scenario({{"runtime.name", "rigcast"}, {"load.users", "8"}});
  const auto taken = [&](const std::vector<SequencePart>& parts) {
    const auto time_with = [&](Seconds start) {
      s.runtime.prefill.start = Sourced<Seconds>{start};
      const auto made = LoadSimulation::make(s);
      REQUIRE(made);
      return BatchTime(s, made->placement(), made->memory()).of(parts).value;
    };
    return time_with(Seconds{0.01}) - time_with(Seconds{});
  };
  const SequencePart answer{500, 1}, begun{0, 100, false}, ended{300, 100};
  const double one = taken({ended});
  CHECK(one > 0.005);
  CHECK(taken({answer}) == Approx(0).margin(1e-9));
  CHECK(taken({begun}) == Approx(0).margin(1e-9));
  CHECK(taken({answer, answer, begun}) == Approx(0).margin(1e-9));
  CHECK(taken({answer, begun, ended}) == Approx(one));
  CHECK(taken({answer, ended, ended}) == Approx(one));
}

TEST_CASE("A faster machine serves no worse", "[serving]") {
  const Scenario s =
      scenario({{"load.preset", "chat"}, {"load.users", "6"}, {"load.requests", "300"}});
  auto simulation = LoadSimulation::make(s);
  REQUIRE(simulation);
  const auto report = simulation->report(*s.load);
  REQUIRE(report);
  REQUIRE((report->fastest && report->slowest));
  CHECK(report->fastest->tpot.p50 < report->figures.tpot.p50);
  CHECK(report->slowest->tpot.p50 > report->figures.tpot.p50);
  CHECK(report->load.find("chat") != std::string::npos);
}

TEST_CASE("What cannot be served is refused with a reason", "[serving]") {
  const auto refusal = [](const Settings& settings) {
    const Scenario s = scenario(settings);
    const auto made = LoadSimulation::make(s);
    return made ? std::string() : made.error().message;
  };
  CHECK(refusal({{"load.users", "2"}, {"runtime.name", "transformers"}}).find("one request") !=
        std::string::npos);
  CHECK(refusal({{"load.users", "2"}, {"scheduler.slots", "512"}}).find("does not fit") !=
        std::string::npos);
}

TEST_CASE("vLLM's cache has as many tokens as its logs say", "[serving][vllm]") {
  // Llama 3.1 8B in BF16 at 0.95 of the memory, 64 sequences, 2,048 tokens a step: logs of 0.12 in
  // kyuz0/amd-r9700-vllm-toolboxes. What the profile keeps outside the cache is their mean.
  for (const auto& [gpu, tokens] : {std::pair<const char*, double>{"rtx-4090", 56'800},
                                    {"rtx-3090", 56'880},
                                    {"rtx-5090", 117'232},
                                    {"a100-pcie-40gb", 180'128}}) {
    const Scenario s = scenario({{"rig.gpu", "[\"" + std::string(gpu) + "\"]"},
                                 {"runtime.name", "vllm"},
                                 {"model.quant", "BF16"},
                                 {"load.users", "2"},
                                 {"scheduler.memory_share", "0.95"},
                                 {"scheduler.max_sequences", "64"}});
    const auto made = LoadSimulation::make(s);
    REQUIRE(made);
    INFO(gpu << ": " << made->cache_tokens());
    CHECK(double(made->cache_tokens()) == Approx(tokens).epsilon(0.03));
  }
}
