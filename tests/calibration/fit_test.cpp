// A small fit: what it writes is read back as fitted figures.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "calibration/write_profile.hpp"
#include "core/runtime/load_profile.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using namespace rigcast::calibration;
namespace fs = std::filesystem;

namespace {

std::vector<ResolvedRun> runs_of(const std::string& gpu, double factor) {
  std::vector<ResolvedRun> runs;
  for (const auto& [model, speed] :
       {std::pair{"Llama-3.1-8B", 120.0}, {"Llama-3.2-3B", 240.0}, {"Qwen2.5-14B", 68.0}}) {
    Measurement m;
    m.id = gpu + model;
    m.gpu = gpu;
    m.gpu_count = 1;
    m.cpu = "Ryzen 9 7950X";
    m.model = model;
    m.quant = "Q4_K_M";
    m.date = "2025-10";
    m.tool = "llama-bench";
    m.gpu_layers = 99;
    m.generated = 128;
    m.value = factor * speed;
    auto run = Resolver(fixtures::catalogue()).resolve(m);
    if (!run) FAIL(run.error().text());
    runs.push_back(*std::move(run));
  }
  return runs;
}

RuntimeProfile unfitted() {
  auto profile = load_runtime_profile(*fixtures::catalogue().runtime_file("llama.cpp"), false);
  if (!profile) FAIL(profile.error().text());
  return *std::move(profile);
}

}  // namespace

TEST_CASE("A fit comes near its rows, forgets a chip it has not seen, and is read back",
          "[calibration]") {
  const RuntimeProfile profile = unfitted();
  const auto all = parameters(profile, {});
  std::vector<ResolvedRun> runs = runs_of("RTX 3090", 1.0);
  for (const ResolvedRun& run : runs_of("RTX 4090", 1.2)) runs.push_back(run);
  const auto samples = [&] {
    std::vector<Sample> bound;
    for (const ResolvedRun& run : runs) bound.emplace_back(run, profile);
    weigh(bound);
    return bound;
  };
  const LeftOut fit = leave_chips_out(all, samples, 2, [](int, int) {});
  std::vector<Sample> bound = samples();
  for (Sample& s : bound) s.bind(all, likely(all));
  REQUIRE(fit.values.size() == all.size());
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const double before = bound[i].error_among(likely(all));
    CHECK(std::abs(fit.fitted[i]) < std::max(0.08, std::abs(before)));
    CHECK(std::isfinite(fit.left_out[i]));
    // Without its family the fit has seen the other chip alone, and no row of the same figures.
    CHECK(std::isfinite(fit.family_left_out[i]));
    CHECK(fit.family_left_out[i] != fit.fitted[i]);
  }

  const fs::path folder = fs::temp_directory_path() / ("rigcast-fit-" + std::to_string(getpid()));
  fs::create_directories(folder / "fitted");
  fs::copy_file(*fixtures::catalogue().runtime_file("llama.cpp"), folder / "llama.cpp.toml");
  std::ofstream(folder / "fitted" / "llama.cpp.toml")
      << to_toml(profile, "", all, bound, fit, "a \"file\"\\.csv");
  const auto read = load_runtime_profile(folder / "llama.cpp.toml");
  fs::remove_all(folder);
  if (!read) FAIL(read.error().text());
  CHECK(read->gpu.at("ampere").read.kind == SourceKind::kFitted);
  CHECK(read->gpu.at("polaris").read.kind == SourceKind::kAssumed);  // no rows
  CHECK(read->gpu.at("ampere").read.value !=
        Approx(profile.gpu_efficiency(runs.front().scenario->rig.gpus.front()).read.value));
  CHECK(read->spread(SpeedMetric::kDecode, "resident") != nullptr);
  REQUIRE(read->family_spread(SpeedMetric::kDecode, "resident") != nullptr);
  CHECK(read->family_spread(SpeedMetric::kDecode, "resident")->chips == 2);
  REQUIRE(read->measured_families.size() == 2);
  CHECK(read->has_measured("ampere", false, SpeedMetric::kDecode));
  CHECK_FALSE(read->has_measured("ampere", true, SpeedMetric::kDecode));
  CHECK_FALSE(read->has_measured("ampere", false, SpeedMetric::kPrefill));
  CHECK_FALSE(read->has_measured("turing", false, SpeedMetric::kDecode));
}

TEST_CASE("What rows of a source have in common is no part of a forecast", "[calibration]") {
  const RuntimeProfile profile = unfitted();
  ResolvedRun run = runs_of("RTX 3090", 1.0).front();
  run.measured.source = "someone";
  const auto all = parameters(profile, {}, {{"rtx-3090"}, {"someone"}});
  std::vector<double> values = likely(all);
  Sample sample(run, profile);
  sample.bind(all, values);
  const double before = sample.error_among(values);
  const auto at = [&](const std::string& path) {
    return std::size_t(std::ranges::find(all, path, &Parameter::path) - all.begin());
  };
  const std::size_t of_source = at("source.\"someone\".tg_tps");
  const std::size_t of_chip = at("chip.\"rtx-3090\".decode");
  REQUIRE(of_source < all.size());
  REQUIRE(of_chip < all.size());
  CHECK(std::ranges::count(sample.depends_on(), int(of_source)) == 1);
  CHECK(std::ranges::count(sample.depends_on(), int(of_chip)) == 1);
  // Of another metric, and of no chip of its own.
  CHECK(std::ranges::count(sample.depends_on(), int(at("source.\"someone\".pp_tps"))) == 0);

  values[of_source] += 0.3;
  std::vector<double> own;
  for (const int i : sample.depends_on()) own.push_back(values[std::size_t(i)]);
  CHECK(sample.error(own.data()) == Approx(before + 0.3).margin(1e-9));
  CHECK(sample.error_among(values) == Approx(before).margin(1e-12));
  values[of_chip] += 0.1;  // the GPU has the whole token but for the host's part
  CHECK(sample.error_among(values) > before + 0.05);
  CHECK(sample.error_among(values) <= before + 0.1);
}

TEST_CASE("A fit is the same with one thread and with several", "[calibration]") {
  const RuntimeProfile profile = unfitted();
  const auto all = parameters(profile, {});
  const std::vector<ResolvedRun> runs = runs_of("RTX 3090", 1.1);
  const auto fitted_with = [&](int threads) {
    std::vector<Sample> samples;
    for (const ResolvedRun& run : runs) samples.emplace_back(run, profile);
    weigh(samples);
    for (Sample& s : samples) s.bind(all, likely(all));
    FitOptions options;
    options.threads = threads;
    return fit(all, samples, likely(all), options);
  };
  CHECK(fitted_with(1) == fitted_with(3));
}
