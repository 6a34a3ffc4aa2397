#include "planner/recommend/recommend.hpp"

#include <algorithm>
#include <set>

#include "perfmodel/serial_time.hpp"
#include "planner/recommend/fastest_within.hpp"
#include "planner/recommend/recommend_text.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::planner;

namespace {

const Catalogue& catalogue() {
  static const Catalogue shipped{test::source_dir()};
  return shipped;
}

const QualityTable& quality() {
  static const auto table =
      QualityTable::read(std::filesystem::path(test::source_dir()) / "models" / "quality");
  REQUIRE(table.ok());
  return *table;
}

Result<Scenario> scenario_on(const std::string& rig, const std::string& model, TokenCount context) {
  TomlDocument document("test");
  document.set("rig.name", toml_text(rig), "test");
  document.set("model.name", toml_text(model), "test");
  document.set("workload.context", std::to_string(context), "test");
  return make_scenario(document, catalogue());
}

std::vector<ModelSpec> all_models() {
  std::vector<ModelSpec> out;
  for (const std::string& id : catalogue().ids("models")) {
    auto spec = catalogue().model(id);
    REQUIRE(spec.ok());
    out.push_back(*std::move(spec));
  }
  return out;
}

struct Recommending {
  int simulated = 0;

  Recommendation run(const std::string& rig, const Asked& asked) {
    const auto found = recommend(
        all_models(), asked,
        [&](const std::string& model, TokenCount n) { return scenario_on(rig, model, n); },
        full_space, quality(),
        [&](std::shared_ptr<const Scenario> s) {
          ++simulated;
          sim::SimulateOptions how;
          how.fidelity = sim::Fidelity::kSweep;
          how.cliffs = false;
          return sim::simulate(std::move(s), how);
        });
    REQUIRE(found.ok());
    return *found;
  }
};

}  // namespace

TEST_CASE("No placement is faster than the bound by which models are left out", "[recommend]") {
  // The bound is of data sheet rates; a closed form above it would hide models that run.
  for (const char* rig : {"gaming-rtx-4090", "desktop-ddr5-cpu-only", "mac-mini-m4-16gb",
                          "dual-rtx-3090", "raspberry-pi-5-8gb"})
    for (const char* model : {"smollm2-135m", "llama-3.1-8b", "qwen3-30b-a3b", "gemma-3-12b",
                              "llama-3.3-70b", "gpt-oss-120b"}) {
      const auto s = scenario_on(rig, model, 8192);
      REQUIRE(s.ok());
      INFO(rig << " " << model);
      CHECK(1 / SerialForecast(*s).mean_token().value <= most_tokens_per_s(*s));
    }
}

TEST_CASE("Every model is recommended or left out with a reason", "[recommend]") {
  Recommending here;
  const Asked asked = asked_for(Purpose::kChat);
  const Recommendation r = here.run("gaming-rtx-4090", asked);
  std::set<std::string> names;
  for (const Recommended& row : r.rows) names.insert(row.facts.name);
  for (const LeftOut& l : r.left_out) {
    names.insert(l.facts.name);
    CHECK(!l.text.empty());
  }
  CHECK(names.size() == catalogue().ids("models").size());
  CHECK(r.rows.size() + r.left_out.size() == names.size());
  CHECK(here.simulated >= int(asked.rows));
  CHECK(here.simulated <= int(asked.rows) + 5);  // a few fall short of what the closed form said
}

TEST_CASE("Shown rows keep to speed and loss, in the stated order", "[recommend]") {
  for (const Purpose purpose : {Purpose::kChat, Purpose::kCode, Purpose::kLongContext}) {
    const Recommendation r = Recommending{}.run("gaming-rtx-4090", asked_for(purpose));
    REQUIRE(r.rows.size() >= r.asked.rows);
    for (std::size_t i = 0; i < r.asked.rows; ++i) {
      const Recommended& row = r.rows[i];
      INFO(name(purpose) << " " << row.facts.name);
      REQUIRE(row.report);
      CHECK(row.report->fits);
      CHECK(row.report->memory.outside_ram.value <= 0);
      CHECK(row.report->decode_tokens_per_s >= r.asked.min_tokens_per_s);
      CHECK(row.candidate.loss.nats <= row.max_loss);
      CHECK(row.candidate.context >= r.asked.context);
      if (i == 0) continue;
      const Recommended& before = r.rows[i - 1];
      if (purpose == Purpose::kChat) {
        const bool is_old = row.facts.released < r.since;
        CHECK((is_old || before.facts.released >= r.since));
        if (is_old == (before.facts.released < r.since))
          CHECK(before.facts.parameters >= row.facts.parameters);
      }
      if (purpose == Purpose::kCode && row.facts.is_for_code && row.facts.released >= r.since)
        CHECK(before.facts.is_for_code);
    }
  }
}

TEST_CASE("What is too large fits in no way that is searched", "[recommend]") {
  const Recommendation r = Recommending{}.run("mac-mini-m4-16gb", asked_for(Purpose::kChat));
  int large = 0;
  for (const LeftOut& l : r.left_out) large += l.reason == WhyNot::kTooLarge;
  CHECK(large > 0);
  for (const LeftOut& l : r.left_out)
    if (l.facts.name == "llama-3.3-70b") CHECK(l.reason != WhyNot::kLateFirstToken);
  // 70e9 parameters at four bits are 35 GB: more than all of 16 GiB.
  CHECK(std::ranges::none_of(
      r.rows, [](const Recommended& row) { return row.facts.name == "llama-3.3-70b"; }));
}

TEST_CASE("A model for code goes by the name under which it was published", "[recommend]") {
  const auto base = catalogue().model("qwen2.5-32b");
  REQUIRE(base.ok());
  CHECK(facts_of(*base, false).name == "qwen2.5-32b");
  CHECK(!facts_of(*base, false).is_for_code);
  const ModelFacts code = facts_of(*base, true);
  CHECK(code.is_for_code);
  const auto found = catalogue().model(code.name);
  REQUIRE(found.ok());
  CHECK(found->id == "qwen2.5-32b");
}
