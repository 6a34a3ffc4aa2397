#include "planner/quality.hpp"

#include "core/catalogue/catalogue.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::planner;

namespace {

QualityTable table() {
  auto read = QualityTable::read(std::filesystem::path(test::source_dir()) / "models" / "quality");
  if (!read) FAIL(read.error().text());
  return *std::move(read);
}

ModelSpec model(const char* id) {
  auto spec = Catalogue(test::source_dir()).model(id);
  if (!spec) FAIL(spec.error().text());
  return *std::move(spec);
}

}  // namespace

TEST_CASE("A mix that was measured in a model loses what was measured", "[planner][quality]") {
  const QualityTable quality = table();
  ModelSpec llama = model("llama-3.1-8b");
  llama.id = "llama-3-8b";  // less what its F16 row shows of the rounding of stored logits
  CHECK(quality.of_mix("Q4_K_M", llama, 8.03e9)->nats == Approx(0.031273 - 0.000551));
  CHECK(quality.of_mix("Q4_K_M", llama, 8.03e9)->kind == SourceKind::kPublished);
  CHECK(quality.of_mix("F16", llama, 8.03e9)->nats == 0);
  CHECK(quality.of_mix("MXFP4", model("gpt-oss-120b"), 117e9)->nats == 0);
  CHECK_FALSE(quality.of_mix("MXFP4", llama, 8.03e9));
  CHECK_FALSE(quality.of_mix("Q9_X", llama, 8.03e9));
}

TEST_CASE("Fewer bits lose more, and a larger model less", "[planner][quality]") {
  const QualityTable quality = table();
  for (const char* id :
       {"llama-3.1-8b", "mistral-7b-v0.3", "qwen3-30b-a3b", "llama-3.1-70b", "tinyllama-1.1b"}) {
    double before = -1;
    for (const char* mix : {"F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K"}) {
      const auto loss = quality.of_mix(mix, model(id), 8e9);
      INFO(id << " " << mix);
      REQUIRE(loss);
      CHECK(loss->nats > before);
      before = loss->nats;
    }
  }
  const ModelSpec unknown = model("phi-4");
  CHECK(quality.of_mix("Q4_K_M", unknown, 70e9)->nats <
        quality.of_mix("Q4_K_M", unknown, 1e9)->nats);
  CHECK(quality.of_mix("Q4_K_M", unknown, 1e9)->factor == 2);
}

TEST_CASE("IQ1 to IQ3 lose more with every step", "[planner][quality]") {
  const QualityTable quality = table();
  for (const char* id : {"llama-3.1-8b", "gemma-2-9b", "llama-3.1-70b"}) {
    double before = quality.of_mix("IQ4_XS", model(id), 8e9)->nats;
    for (const char* mix : {"IQ3_XXS", "IQ2_M", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M"}) {
      const auto loss = quality.of_mix(mix, model(id), 8e9);
      INFO(id << " " << mix);
      REQUIRE(loss);
      CHECK(loss->nats > before);
      before = loss->nats;
    }
  }
  // Published with a matrix, without which they are not made: nothing is added.
  ModelSpec llama = model("llama-3.1-8b");
  llama.id = "llama-3-8b";
  CHECK(quality.of_mix("IQ2_XXS", llama, 8.03e9)->nats == Approx(0.812022 - 0.000551));
}

TEST_CASE("A mix like another one loses as much, within a factor of two", "[planner][quality]") {
  const QualityTable quality = table();
  const ModelSpec llama = model("llama-3.1-8b");
  for (const auto& [mix, like] : {std::pair{"Q4_K_L", "Q4_K_M"},
                                  {"Q3_K_XL", "Q3_K_L"},
                                  {"UD-Q4_K_XL", "Q4_K_M"},
                                  {"UD-IQ2_M", "IQ2_M"}}) {
    const auto loss = quality.of_mix(mix, llama, 8e9);
    INFO(mix);
    REQUIRE(loss);
    CHECK(loss->nats == quality.of_mix(like, llama, 8e9)->nats);
    CHECK(loss->kind == SourceKind::kFitted);
    CHECK(loss->factor >= 2);
  }
}

TEST_CASE("A cache of fewer bits loses more, keys more than values", "[planner][quality]") {
  using enum QuantFormat;
  const QualityTable quality = table();
  CHECK(quality.of_kv({kF16, kF16})->nats == 0);
  const double eight = quality.of_kv({kQ8_0, kQ8_0})->nats;
  const double values = quality.of_kv({kF16, kQ4_0})->nats;
  const double keys = quality.of_kv({kQ4_0, kF16})->nats;
  CHECK(eight == Approx(0.00098));
  CHECK(eight < values);
  CHECK(values < keys);
  CHECK(keys < quality.of_kv({kQ4_0, kQ4_0})->nats);
  const QualityLoss both = *quality.of_kv({kQ8_0, kQ8_0}) + QualityLoss{0.03};
  CHECK(both.nats == Approx(0.03098));
  CHECK(both.kind == SourceKind::kFitted);
}
