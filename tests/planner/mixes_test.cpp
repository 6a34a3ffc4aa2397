// The mixes that a plan chooses from.

#include <algorithm>

#include "planner/compare.hpp"
#include "planner/plan.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::planner;
using fixtures::scenario;

namespace {

Scenario placed(const fixtures::Settings& settings) {
  return scenario(fixtures::with(settings, {{"placement.gpu_layers", "\"auto\""}}));
}

std::vector<std::string> mixes(const fixtures::Settings& settings) {
  return full_space(placed(settings)).quants;
}

bool has(const std::vector<std::string>& mixes, const char* name) {
  return std::ranges::find(mixes, name) != mixes.end();
}

}  // namespace

TEST_CASE("A model published in MXFP4 is planned in MXFP4", "[planner]") {
  const fixtures::Settings gpt_oss = {{"model.name", "gpt-oss-20b"}};
  CHECK(mixes(gpt_oss) == std::vector<std::string>{"MXFP4"});
  const auto quality =
      QualityTable::read(std::filesystem::path(test::source_dir()) / "models" / "quality");
  REQUIRE(quality.ok());
  const Scenario s = placed(gpt_oss);
  const auto eight_bits = quality->of_kv({QuantFormat::kQ8_0, QuantFormat::kQ8_0});
  CHECK(usual_loss(s.model, s.tensors, *quality) == eight_bits->nats);
  CHECK(usual_loss(scenario().model, scenario().tensors, *quality) > eight_bits->nats);
}

TEST_CASE("Mixes that give every tensor the same format are one", "[planner]") {
  // Without experts, MXFP4 is Q8_0 throughout.
  const auto dense = mixes({});
  CHECK(has(dense, "Q8_0"));
  CHECK_FALSE(has(dense, "MXFP4"));
  CHECK(has(mixes({{"model.name", "qwen3-30b-a3b"}}), "MXFP4"));
}

TEST_CASE("The smallest mixes are searched where memory is short", "[planner]") {
  CHECK_FALSE(has(mixes({}), "IQ2_M"));
  const fixtures::Settings large = {{"model.name", "llama-3.3-70b"}, {"rig.gpu", "rtx-4090"}};
  for (const char* mix : {"Q4_K_M", "IQ3_M", "IQ3_XXS", "IQ2_M", "IQ2_XXS"})
    CHECK(has(mixes(large), mix));
  CHECK(has(mixes(fixtures::with(large, {{"runtime.name", "rigcast"}})), "IQ2_M"));
}
