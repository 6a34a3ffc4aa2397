// Fits on kept runs: changed figures return to their values, and figures that no run determines do
// not change.
#include "calibration/runs/fit_runs.hpp"

#include <algorithm>
#include <cmath>

#include "calibration/fit/fit.hpp"
#include "calibration/runs/calibrate_on_runs.hpp"
#include "calibration/runs/run_parameters.hpp"
#include "core/runtime/load_profile.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::calibration;

namespace {

constexpr int kJobs = 2;
const std::string kCpuRuns = test::source_path("/tests/validation/fit.jsonl.gz");
const std::string kGpuRuns = test::source_path("/tests/validation/fit-h200.jsonl.gz");

KeptRows kept_of(const std::vector<std::string>& files) {
  auto kept = KeptRows::read(files, fixtures::catalogue());
  if (!kept) FAIL(kept.error().text());
  return *std::move(kept);
}

std::vector<Parameter> some(const KeptRows& kept, const std::vector<std::string>& paths) {
  std::vector<Parameter> all = run_parameters(kept.profile(), kept.on_gpu());
  std::erase_if(
      all, [&](const Parameter& p) { return std::ranges::find(paths, p.path) == paths.end(); });
  REQUIRE(all.size() == paths.size());
  return all;
}

RunFit fit_from(const KeptRows& kept, const std::vector<Parameter>& parameters,
                const std::vector<double>& start) {
  auto fit = fit_runs(kept, parameters, start, kJobs);
  if (!fit) FAIL(fit.error().text());
  return *std::move(fit);
}

}  // namespace

TEST_CASE("A fit restores changed figures, and leaves those that no run determines",
          "[calibration]") {
  const KeptRows kept = kept_of({kCpuRuns});
  // Two threads of AVX-512 VNNI ran, and no expert.
  const auto parameters = some(kept, {"cpu.half_rate_batch", "cpu.attention",
                                      "cpu.int8_share.avx512-vnni", "cpu.int8_share.neon"});
  const std::vector<double> likely = calibration::likely(parameters);
  const RunFit there = fit_from(kept, parameters, likely);
  CHECK(there.cost <= there.cost_before);
  CHECK(there.untold == std::vector<std::string>{"cpu.int8_share.neon"});

  std::vector<double> moved = likely;
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += i % 2 == 0 ? 0.5 : -0.5;
  const RunFit back = fit_from(kept, parameters, moved);
  CHECK(back.cost_before > 1.5 * there.cost);
  // Each step of a fit may gain as much as the limit at which it ends.
  CHECK(back.cost == Approx(there.cost).epsilon(kMaxSteps * kMinGain));
  REQUIRE(back.values.size() == there.values.size());
  CHECK(back.untold == there.untold);
}

TEST_CASE("Activities weigh by their share of the phase, speeds by one", "[calibration]") {
  const KeptRows kept = kept_of({kCpuRuns});
  CHECK_FALSE(kept.on_gpu());
  CHECK(kept.date() == "2026-11-22");
  CHECK(kept.profile().id == "rigcast");
  double prefill = 0;
  for (const KeptRow& row : kept.rows()) {
    if (row.run != kept.rows().front().run) continue;
    if (row.metric.starts_with("activities.prefill."))
      prefill += row.weight * row.weight;
    else if (!row.metric.starts_with("activities."))
      CHECK(row.weight == 1);
  }
  CHECK(prefill == Approx(1));
}

TEST_CASE("Runs of a CPU and of a GPU are not fitted together", "[calibration]") {
  const std::vector<std::string> both = {kCpuRuns, kGpuRuns};
  const auto kept = KeptRows::read(both, fixtures::catalogue());
  REQUIRE_FALSE(kept);
  CHECK(fixtures::contains(kept.error().message, "fitted apart"));
}

TEST_CASE("Every figure that runs tell is the file's own, in its unit", "[calibration]") {
  const auto file = *fixtures::catalogue().runtime_file("rigcast");
  const auto profile = load_runtime_profile(file);
  const auto document = TomlDocument::read(file);
  REQUIRE(profile);
  REQUIRE(document);
  for (const bool on_gpu : {false, true}) {
    const auto all = run_parameters(*profile, on_gpu);
    CHECK(all.size() >= 24);
    for (const Parameter& p : all) {
      INFO(p.path);
      CHECK(document->has(p.path));
      CHECK((p.least <= p.prior && p.prior <= p.most));
    }
  }
}

TEST_CASE("A profile is written with fitted figures, and all else as it was", "[calibration]") {
  const std::vector<std::string> files = {kGpuRuns};
  const KeptRows kept = kept_of(files);
  const RunFit fit{some(kept, {"gpu.default.read", "decode.token"}), {0.9, 2.5e-6}, {}, {}, 0, 0};
  const auto text = fitted_profile(kept, fit, files);
  REQUIRE(text);
  const auto read = TomlDocument::parse(*text, "written");
  REQUIRE(read);
  const auto share = read->root().table("gpu").table("default").find_number_figure("read", 0, 1);
  REQUIRE(share);
  CHECK(share->value == 0.9);
  CHECK(share->kind == SourceKind::kFitted);
  CHECK(share->source == "fit on tests/validation/fit-h200.jsonl.gz of 2026-11-30");
  const auto token =
      read->root().table("decode").find_figure<Seconds>("token", Seconds{0}, Seconds{1});
  REQUIRE(token);
  CHECK(token->value.value == Approx(2.5e-6));
  // All else is as it was.
  CHECK(fixtures::contains(*text, "# Rates of one token to those of Q4_K, from the cache."));
  const auto cpu = read->root().table("cpu").find_number_figure("read", 0, 1);
  REQUIRE(cpu);
  CHECK(cpu->value == kept.profile().cpu.read.value);
  // Configurations of CPUs are still those that figures were fitted on.
  const auto names = read->root().texts("fitted_on");
  const auto of_cpus = [](const std::vector<std::string>& all) {
    return std::ranges::count_if(
        all, [](const std::string& n) { return n.find("GPU") == std::string::npos; });
  };
  CHECK(of_cpus(names) == of_cpus(kept.profile().fitted_on));
  CHECK(of_cpus(names) > 0);
}
