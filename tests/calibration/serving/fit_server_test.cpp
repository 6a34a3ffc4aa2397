// A fit finds the figures with which the loads that it is given were made.

#include "calibration/serving/fit_server.hpp"

#include <cmath>

#include "calibration/serving/server_fit_text.hpp"
#include "calibration/serving/server_parameters.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/runtime/load_profile.hpp"
#include "measurements/serving/serving_measurement.hpp"
#include "sim/serving/simulate_load.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::calibration;

namespace {

const Catalogue& catalogue() {
  static const Catalogue all{test::source_dir()};
  return all;
}

RuntimeProfile vllm() {
  auto profile = load_runtime_profile(*catalogue().runtime_file("vllm"), false);
  REQUIRE(profile);
  return *profile;
}

// Closed loads of an 8B in 16 bits, as a machine with figures of `truth` would measure them.
std::vector<ResolvedServing> measured(const RuntimeProfile& truth) {
  NameResolver resolver{catalogue()};
  std::vector<ResolvedServing> runs;
  for (const char* gpu : {"RTX 4090", "RTX 5090", "A100 SXM 80GB"})
    for (const int users : {1, 8, 32}) {
      ServingMeasurement m;
      m.id = std::string(gpu) + std::to_string(users);
      m.engine = "vllm";
      m.model = "meta-llama/Llama-3.1-8B";
      m.quant = "BF16";
      m.gpu = gpu;
      m.arrival = "closed";
      m.concurrency = users;
      m.prompt_tokens = 256;
      m.output_tokens = 32;
      auto run = resolve_serving(m, resolver);
      REQUIRE(run);
      Scenario scenario = *run->scenario;
      scenario.runtime = truth;
      auto simulation = LoadSimulation::make(scenario);
      REQUIRE(simulation);
      Load load = *scenario.load;
      load.requests = 300;
      const auto figures = simulation->figures(load);
      REQUIRE(figures);
      run->measured.output_tokens_per_s = figures->output_tokens_per_s;
      run->measured.tpot.p50 = 1000 * figures->tpot.p50;
      runs.push_back(*std::move(run));
    }
  return runs;
}

double mean_error(const ServerFit& fit, LoadErrors FittedLoad::*of) {
  double sum = 0;
  int n = 0;
  for (const FittedLoad& load : fit.loads)
    for (const auto& error : (load.*of).of)
      if (error) {
        sum += std::abs(*error);
        ++n;
      }
  return n > 0 ? sum / n : 0;
}

}  // namespace

TEST_CASE("A fit on a machine's loads forecasts them, and those of chips that it left out",
          "[calibration]") {
  RuntimeProfile truth = vllm();
  truth.gpu.at("default").read.value = 0.7;
  truth.gpu.at("default").gemm.value = 0.5;
  truth.server->step.value = Seconds{2e-3};
  const auto fit = fit_server(vllm(), measured(truth), 2, [](const std::string&) {});
  REQUIRE(fit);
  CHECK(fit->chips == 3);
  // Errors begin at 30 % and more. What is left is what priors and jumps of a load leave.
  CHECK(mean_error(*fit, &FittedLoad::fitted) < 0.03);
  CHECK(mean_error(*fit, &FittedLoad::left_out) < 0.06);
  for (std::size_t i = 0; i < fit->parameters.size(); ++i)
    if (fit->parameters[i].path == "gpu.default.read")
      CHECK(fit->values[i] == Approx(0.7).epsilon(0.08));
  const std::string toml = to_toml(vllm(), *fit, "runs.csv");
  CHECK(TomlDocument::parse(toml, "fit"));
  CHECK(toml.find("[gpu.default]") != std::string::npos);
  CHECK(to_csv(*fit).find("rtx-4090") != std::string::npos);
  CHECK(to_text(*fit).find("tpot_p50_s") != std::string::npos);
}

TEST_CASE("What a fit is worth is told without another fit", "[calibration]") {
  RuntimeProfile truth = vllm();
  truth.gpu.at("default").read.value = 0.7;
  truth.gpu.at("default").kv_read.value = kv_read_beside(vllm(), 0.7);
  truth.server->step.value = Seconds{2e-3};
  const auto runs = measured(truth);
  const ServerFit same = judge_server_fit(vllm(), truth, runs, 2, [](const std::string&) {});
  const ServerFit other = judge_server_fit(vllm(), vllm(), runs, 2, [](const std::string&) {});
  // 1,000 requests in place of 300, all alike.
  CHECK(mean_error(same, &FittedLoad::fitted) < 0.01);
  CHECK(mean_error(other, &FittedLoad::fitted) > 0.2);
  for (std::size_t i = 0; i < same.parameters.size(); ++i)
    if (same.parameters[i].path == "gpu.default.read") {
      CHECK(same.values[i] == Approx(0.7));
      CHECK(other.values[i] == Approx(vllm().gpu.at("default").read.value));
      CHECK(same.rows[i] > 0);
    }
}

TEST_CASE("Of loads that differ in their intensity alone, three are fitted", "[calibration]") {
  NameResolver resolver{catalogue()};
  std::vector<ResolvedServing> runs;
  for (const int users : {16, 1, 4, 2, 8}) {
    ServingMeasurement m;
    m.engine = "vllm";
    m.model = "meta-llama/Llama-3.1-8B";
    m.quant = "BF16";
    m.gpu = "RTX 4090";
    m.arrival = "closed";
    m.concurrency = users;
    m.prompt_tokens = m.output_tokens = 128;
    auto run = resolve_serving(m, resolver);
    REQUIRE(run);
    runs.push_back(*std::move(run));
  }
  // Experts that are divided whole make steps of their own.
  std::vector<ResolvedServing> mixed = runs;
  for (ResolvedServing run : runs) {
    run.measured.expert_parallel = 2;
    mixed.push_back(std::move(run));
  }
  CHECK(distinct_loads(std::move(mixed)).size() == 6);
  const auto chosen = distinct_loads(std::move(runs));
  REQUIRE(chosen.size() == 3);
  CHECK(*chosen[0].measured.concurrency == 1);
  CHECK(*chosen[1].measured.concurrency == 4);
  CHECK(*chosen[2].measured.concurrency == 16);
}
