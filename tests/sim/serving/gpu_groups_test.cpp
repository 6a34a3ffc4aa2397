// Loads on servers whose GPUs are stages of a pipeline, or several engines.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "load/offered_load.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "report/serving/serving_text.hpp"
#include "sim/serving/batch_time.hpp"
#include "sim/serving/simulate_load.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/sim/scenario_fixtures.hpp"
#include "tests/sim/serving/load_fixture.hpp"

using namespace rigcast;
using fixtures::figures_of;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::with;

namespace {

const Settings kServer = {{"workload.prompt_tokens", "500"},
                          {"workload.output_tokens", "100"},
                          {"load.requests", "1000"},
                          {"runtime.name", "vllm"},
                          {"model.quant", "BF16"}};

Settings on(int gpus, const Settings& more) {
  return with(with(kServer, {{"rig.gpu", "[\"" + std::to_string(gpus) + "xrtx-3090\"]"}}), more);
}

}  // namespace

TEST_CASE("The stages of a pipeline take the time of a step together", "[serving][groups]") {
  for (const int gpus : {2, 4}) {
    const Scenario s =
        scenario(on(gpus, {{"placement.pipeline_parallel", "2"}, {"load.rate", "1"}}));
    const Placement placement = resolve_placement(s);
    const BatchTime time(s, placement, plan_memory(s, placement, s.workload.context));
    for (const TokenCount tokens : {1, 700}) {
      const sim::StepUse use = time.use_of({{1000, tokens, true}, {2000, 1, true}, {500, 1, true}});
      const Seconds second = use.later_stages[0];
      for (std::size_t i = 1; i < use.later_stages.size(); ++i)
        CHECK(use.later_stages[i].value == 0);
      // Of 32 layers each has 16. The host's work is the first one's, the head the last one's.
      CHECK(second.value > 0.4 * use.time.value);
      CHECK(second.value < 0.6 * use.time.value);
    }
  }
}

TEST_CASE("Each stage has its layers, the first the embedding, the last the head",
          "[serving][groups]") {
  const Scenario s = scenario(on(4, {{"placement.pipeline_parallel", "4"}, {"load.rate", "1"}}));
  const Placement placement = resolve_placement(s);
  const MemoryPlan memory = plan_memory(s, placement, s.workload.context);
  double layers = 0, all = 0;
  for (const LayerWeights& layer : s.tensors.layers)
    layers += double(layer.rest() + layer.ffn_or_experts());
  const double end = double(s.tensors.head.bytes());
  for (std::size_t g = 0; g < 4; ++g) {
    const double ends = g == 0 || g == 3 ? end : 0;
    CHECK(memory.devices[g].weights.value == Approx(layers / 4 + ends).epsilon(1e-3));
    // As many blocks on each: those of the fullest.
    CHECK(memory.devices[g].kv == memory.devices[0].kv);
    CHECK(memory.devices[g].free().value >= 0);
    all += memory.devices[g].weights.value;
  }
  CHECK(all == Approx(layers + 2 * end).epsilon(1e-3));
  CHECK(memory.devices[1].free() > memory.devices[3].free());
}

TEST_CASE("A user of a pipeline has the speed of a single request", "[serving][groups]") {
  const Settings alone = on(2, {{"placement.pipeline_parallel", "2"}, {"load.users", "1"}});
  const ServingFigures f = figures_of(alone);
  const ServingFigures shared = figures_of(on(2, {{"load.users", "1"}}));
  const ServingFigures one = figures_of(on(1, {{"load.users", "1"}}));
  // One GPU after the other computes as long as one that has all layers.
  CHECK(f.tpot.p50 == Approx(one.tpot.p50).epsilon(0.02));
  CHECK(f.tpot.p50 > one.tpot.p50);
  CHECK(f.tpot.p50 > 1.3 * shared.tpot.p50);
  CHECK(f.running ==
        Approx(f.requests_per_s * (f.e2e.mean - f.ttft.mean + f.tpot.mean)).epsilon(0.2));
}

TEST_CASE("The pieces of a single prompt follow one another through the stages",
          "[serving][groups]") {
  // Prompts of n pieces of 2,048 tokens, each of which takes g longer than the one before it.
  const auto ttft = [](int gpus, int pieces) {
    const Settings prompt = on(gpus, {{"placement.pipeline_parallel", std::to_string(gpus)},
                                      {"workload.context", "16384"},
                                      {"workload.prompt_tokens", std::to_string(2048 * pieces)},
                                      {"workload.output_tokens", "16"}});
    const auto s = std::make_shared<const Scenario>(scenario(prompt));
    return std::pair{sim::simulate(s, {}).resident->total().value,
                     figures_of(with(prompt, {{"load.users", "1"}})).ttft.p50};
  };
  const auto [alone_1, load_1] = ttft(1, 1);
  const auto [alone_2, load_2] = ttft(1, 2);
  const auto [alone_3, load_3] = ttft(1, 3);
  const auto [staged_alone_1, staged_load_1] = ttft(2, 1);
  const auto [staged_alone_2, staged_load_2] = ttft(2, 2);
  const auto [staged_alone_3, staged_load_3] = ttft(2, 3);
  constexpr double kRounding = 1e-9;  // s
  const auto growth = [](double a, double b, double c) { return a - 2 * b + c; };
  const double g = growth(load_1, load_2, load_3);
  CHECK(g > 0.01);
  CHECK(growth(alone_1, alone_2, alone_3) == Approx(g).margin(kRounding));
  // Two stages with half of the layers each compute one piece while the next one follows.
  CHECK(growth(staged_load_1, staged_load_2, staged_load_3) == Approx(g / 2).margin(kRounding));
  CHECK(growth(staged_alone_1, staged_alone_2, staged_alone_3) == Approx(g / 2).margin(kRounding));
  // A server reads requests, and a program makes tokens of a prompt, whatever computes them.
  CHECK(staged_load_1 - staged_alone_1 == Approx(load_1 - alone_1).margin(kRounding));
  // A single request's pieces are taken to be alike: what is left for one stage when the other has
  // none is half of the mean piece, and not of the last or the first, which differ from it by
  // (n - 1) g / 2.
  const double beside = load_3 - alone_3;
  CHECK(std::fabs(staged_load_3 - staged_alone_3 - beside) <= 2 * g / 4 + kRounding);
}

TEST_CASE("GPUs with whole experts wait for the fullest", "[serving][groups]") {
  const auto tpot = [](const char* users, const char* whole) {
    return figures_of(on(4, {{"model.name", "qwen3-30b-a3b"},
                             {"placement.gpu_layers", "99"},
                             {"load.users", users},
                             {"placement.expert_parallel", whole}}))
        .tpot.p50;
  };
  const double few = tpot("1", "true") / tpot("1", "false");
  const double many = tpot("64", "true") / tpot("64", "false");
  CHECK((few > 1.02 && few < 2));
  CHECK((many >= 1 && many < few));
}

TEST_CASE("Two engines serve twice what one does", "[serving][groups]") {
  const ServingFigures one = figures_of(on(1, {{"load.rate", "1.5"}, {"load.turns", "1"}}));
  const ServingFigures two = figures_of(
      on(2, {{"load.rate", "3"}, {"load.turns", "1"}, {"placement.data_parallel", "2"}}));
  CHECK(two.requests_per_s == Approx(2 * one.requests_per_s).epsilon(1e-9));
  CHECK(two.output_tokens_per_s == Approx(2 * one.output_tokens_per_s).epsilon(1e-9));
  CHECK(two.running == Approx(2 * one.running).epsilon(1e-9));
  CHECK(two.requests == 2 * one.requests);
  CHECK(two.cache.capacity == one.cache.capacity);  // of each, as are shares of it
  CHECK(two.cache.mean == one.cache.mean);
  CHECK(two.ttft.p50 == one.ttft.p50);
  CHECK(two.e2e.p99 == one.e2e.p99);
  CHECK(two.busy == one.busy);
  // Of three users an engine has two: what all get is that of three.
  const ServingFigures users = figures_of(on(1, {{"load.users", "2"}}));
  const ServingFigures three =
      figures_of(on(2, {{"load.users", "3"}, {"placement.data_parallel", "2"}}));
  CHECK(three.tpot.p50 == users.tpot.p50);
  CHECK(three.output_tokens_per_s == Approx(1.5 * users.output_tokens_per_s).epsilon(1e-9));
}

TEST_CASE("The cache of which shares are told is one engine's", "[serving][groups]") {
  ServingReport serving;
  serving.figures.cache.capacity = 90'656;
  serving.figures.cache.peak = 0.09;
  const auto cache = [&](int engines) {
    for (const ServingLine& line : serving_lines(serving, {}, engines))
      if (line.label == "KV cache") return line.figures;
    return std::string();
  };
  CHECK(cache(1).ends_with("9 % at most, of 90,656 tokens"));
  CHECK(cache(2).ends_with("9 % at most, of each engine's 90,656 tokens"));
}

TEST_CASE("Cut requests of several engines are counted, or an estimate that says so",
          "[serving][groups]") {
  const test::Folder folder;
  std::ofstream file(folder / "seven.csv");
  file << "arrival_s,input_tokens,output_tokens\n";
  for (const char* line :
       {"0,300,10", "1,9000,10", "2,100,10", "3,9000,10", "4,100,10", "5,9000,9", "6,200,10"})
    file << line << "\n";
  file.close();
  const std::string trace = "\"" + (folder / "seven.csv") + "\"";
  const Settings seven = {{"load.trace", trace}, {"workload.context", "4096"}};
  const std::vector<std::string> notes = scenario(with(on(1, {}), seven)).warnings;
  CHECK(std::ranges::any_of(notes, [](const std::string& note) {
    return note.starts_with("requests are as long as the trace says");
  }));
  const ServingFigures all = figures_of(with(on(2, {{"placement.data_parallel", "2"}}), seven));
  // None of the requests that the first engine gets are cut, all that the other one gets.
  CHECK(all.requests == 7);
  CHECK(all.shortened == 3);
  CHECK_FALSE(all.shortened_is_about);
  CHECK(shortened_text(all).starts_with("3 of 7 requests were cut"));
  CHECK(figures_of(with(on(1, {}), seven)).shortened == 3);
  const ServingFigures drawn = figures_of(
      on(2, {{"load.rate", "3"}, {"load.turns", "40"}, {"placement.data_parallel", "2"}}));
  REQUIRE(drawn.shortened > 0);
  CHECK(shortened_text(drawn).starts_with("about "));
}

TEST_CASE("Groups of GPUs are named by those in them", "[serving][groups]") {
  const Scenario s = scenario(on(4, {{"placement.pipeline_parallel", "2"}, {"load.rate", "1"}}));
  const MemoryPlan memory = plan_memory(s, resolve_placement(s), s.workload.context);
  REQUIRE(memory.devices.size() == 3);
  CHECK(memory.devices[0].device == "GPUs 0-1");
  CHECK(memory.devices[1].device == "GPUs 2-3");
}

TEST_CASE("Turns of a session find what was said when it was there last", "[serving][groups]") {
  Load load;
  load.arrival = ArrivalProcess::kPoisson;
  load.rate = 5;
  load.requests = 20000;
  load.turns.value = 6;
  load.prompt_tokens.value = FixedLength{100};
  load.output_tokens.value = FixedLength{10};
  for (const int engines : {1, 2, 4}) {
    auto offered = offer(load, 100'000, engines);
    REQUIRE(offered);
    std::vector<ServedRequest> all;
    std::vector<int> turn;
    int later = 0, of_last_turn = 0;
    for (auto next = (*offered)->next(); next; next = (*offered)->next()) {
      const std::size_t id = all.size();
      all.push_back((*offered)->take());
      const ServedRequest& r = all.back();
      // A turn has 110 tokens of history for each before it.
      const bool is_later = r.prompt > 100;
      later += is_later ? 1 : 0;
      if (r.continues) {
        CHECK(r.shared == all[*r.continues].prompt + all[*r.continues].output);
        of_last_turn += r.shared == r.prompt - 100 ? 1 : 0;
      }
      (*offered)->ended(id, *next);
    }
    REQUIRE(later > 10000);
    // A share of 1 / n: within four standard errors.
    const double p = 1.0 / engines;
    CHECK(of_last_turn == Approx(later * p).margin(4 * std::sqrt(later * p * (1 - p)) + 0.5));
  }
}
