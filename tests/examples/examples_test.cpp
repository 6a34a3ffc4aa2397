// Every scenario of examples/ runs, and shows the mechanism that its source document describes.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "perfmodel/memory.hpp"
#include "report/report_from_json.hpp"
#include "report/report_json.hpp"
#include "sim/advice.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

using namespace rigcast;

namespace {

const std::filesystem::path kRoot = test::source_dir();

struct Run {
  TomlDocument document;
  Report report;
};

Run run(const std::string& example, std::vector<std::pair<std::string, std::string>> set = {},
        std::vector<TokenCount> positions = {}) {
  auto document = TomlDocument::read(kRoot / "examples" / (example + ".toml"));
  REQUIRE(document);
  for (const auto& [key, value] : set) REQUIRE_FALSE(document->set(key, value, "test"));
  auto scenario = make_scenario(*document, Catalogue(kRoot));
  if (!scenario) FAIL(scenario.error().text());
  sim::SimulateOptions options;
  options.positions = std::move(positions);
  Report report = sim::simulate(std::make_shared<const Scenario>(*std::move(scenario)), options);
  const std::string text = to_json(report);
  CHECK(to_json(*report_from_json(text, report.scenario)) == text);
  return {*document, std::move(report)};
}

Report report_of(const std::string& example,
                 std::vector<std::pair<std::string, std::string>> set = {},
                 std::vector<TokenCount> positions = {}) {
  return run(example, std::move(set), std::move(positions)).report;
}

const Cliff* position_cliff(const Report& r) {
  const auto it = std::ranges::find(r.cliffs, CliffAxis::kPosition, &Cliff::axis);
  return it == r.cliffs.end() ? nullptr : &*it;
}

}  // namespace

TEST_CASE("Every example is a scenario that can be forecast", "[examples]") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "examples")) {
    if (entry.path().extension() != ".toml") continue;
    const Report r = report_of(entry.path().stem().string());
    INFO(entry.path().filename().string());
    CHECK(r.fits == (entry.path().stem() != "s11-gpu-64k"));
    if (r.fits) CHECK(r.decode_tokens_per_s > 0);
    ++count;
  }
  CHECK(count >= 15);
}

TEST_CASE("S1 as written: speed declines, then falls by a factor when VRAM is full", "[examples]") {
  const Report r = report_of("s1-as-written", {}, {0, 4000, 4500, 5000, 7000});
  REQUIRE(r.by_position.size() == 5);
  for (std::size_t i = 1; i < 5; ++i)
    CHECK(r.by_position[i].tokens_per_s < r.by_position[i - 1].tokens_per_s);
  const Cliff* cliff = position_cliff(r);
  REQUIRE(cliff);
  REQUIRE(r.memory.resident_tokens);
  // Located to within one block of where the first block leaves VRAM.
  CHECK(std::abs(cliff->at_tokens - *r.memory.resident_tokens) <= r.scenario->kv.block_tokens);
  CHECK(cliff->tier == Tier::kVram);
  CHECK(cliff->before_tokens_per_s > 4 * cliff->after_tokens_per_s);
  // Resident, page cache and disk each cost more than the one before.
  CHECK(r.resident->total() < r.warm->total());
  CHECK(r.warm->total() < r.cold->total());
}

TEST_CASE("S1 with Mistral: its KV heads leave room for nearly five times the document's tokens",
          "[examples]") {
  const Report r = report_of("s1-mistral");
  REQUIRE(r.memory.resident_tokens);
  CHECK(*r.memory.resident_tokens > 19'500);
  REQUIRE(position_cliff(r));
}

TEST_CASE("S1: LRU eviction keeps no block that the next token needs", "[examples]") {
  const std::vector<TokenCount> at{4000};
  const Report oldest = report_of("s1-as-written", {}, at);
  const Report lru = report_of("s1-as-written", {{"kv.evict", "lru"}}, at);
  CHECK(lru.by_position[0].tokens_per_s < 0.7 * oldest.by_position[0].tokens_per_s);
}

TEST_CASE("S2: at least ten alternatives are simulated and at least three are real gains",
          "[examples]") {
  const Run s2 = run("s2-diagnosis");
  const auto alternatives = sim::alternatives(*s2.report.scenario, s2.report);
  CHECK(alternatives.size() >= 10);
  const auto tried = sim::try_alternatives(s2.document, Catalogue(kRoot), s2.report, alternatives);
  CHECK(tried.size() >= 3);
  for (const sim::TriedAlternative& t : tried) {
    CHECK(t.advice.gain > 0);
    CHECK(t.request < sim::request_time(s2.report));
  }
}

TEST_CASE("S3: the mix that fits is several times faster than the one that is split",
          "[examples]") {
  const Report f16 = report_of("s3-f16");
  const Report q4 = report_of("s3-q4-k-m");
  CHECK(f16.placement.gpu_layers < 32);
  CHECK(q4.placement.gpu_layers == 33);
  CHECK(q4.decode_tokens_per_s > 4 * f16.decode_tokens_per_s);
}

TEST_CASE("S5: every further layer on the GPU helps, the last ones most", "[examples]") {
  std::vector<double> tps;
  for (const char* layers : {"0", "8", "16", "24", "32"})
    tps.push_back(
        report_of("s5-layer-split", {{"placement.gpu_layers", layers}}).decode_tokens_per_s);
  for (std::size_t i = 2; i < tps.size(); ++i) CHECK(tps[i] - tps[i - 1] > tps[i - 1] - tps[i - 2]);
}

TEST_CASE("S6: a long resident prefill is bound by compute, a short one by VRAM", "[examples]") {
  const Report longer = report_of("s6-compute-bound");
  CHECK(longer.prefill_bound.resource == Resource::kGpu);
  const Report shorter = report_of(
      "s6-compute-bound", {{"workload.prompt_tokens", "8"}, {"workload.output_tokens", "8"}});
  CHECK(shorter.prefill_bound.resource == Resource::kVram);
}

TEST_CASE("S7: four-bit cold blocks cross the link in less than a third of the bytes",
          "[examples]") {
  const std::vector<TokenCount> at{12000};
  const Report q4 = report_of("s7-clinic", {}, at);
  const Report f16 = report_of("s7-clinic", {{"kv.cold_type", "f16"}}, at);
  CHECK(q4.by_position[0].tokens_per_s > 2 * f16.by_position[0].tokens_per_s);
}

TEST_CASE("S10: streamed weights cost hundreds of milliseconds a token", "[examples]") {
  const Report r = report_of("s10-weight-offload");
  CHECK(r.decode_bound.resource == Resource::kH2d);
  CHECK(r.tpot.mean > 200_ms);
}

TEST_CASE("S11: offloading and CPU decode rank as in the document, and 64K does not fit",
          "[examples]") {
  const double gpu = report_of("s11-gpu-dynamic").decode_tokens_per_s;
  const double offloaded = report_of("s11-gpu-offloaded").decode_tokens_per_s;
  const double cpu = report_of("s11-cpu-decode").decode_tokens_per_s;
  CHECK(gpu > offloaded);
  CHECK(offloaded > cpu);
  // The document's band at 32K: 0.1 to 0.3.
  CHECK(cpu / gpu > 0.1);
  CHECK(cpu / gpu < 0.3);
  CHECK_FALSE(report_of("s11-gpu-64k").fits);
  CHECK(report_of("s11-cpu-64k").fits);
}

TEST_CASE("S12: flash attention saves memory and prefill time", "[examples]") {
  const Report on = report_of("s12-terms");
  const Report off = report_of("s12-terms", {{"runtime.flash_attention", "false"}});
  CHECK(on.memory.devices[0].activations < off.memory.devices[0].activations);
  CHECK(on.resident->prefill < off.resident->prefill);
}
