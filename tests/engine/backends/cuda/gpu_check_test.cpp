#include "engine/backends/cuda/check/gpu_check.hpp"

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "engine/architectures/bind_model.hpp"
#include "engine/backends/cpu/cpu_executor.hpp"
#include "engine/backends/cuda/check/checked_models.hpp"
#include "engine/kernels/ref/forward.hpp"
#include "engine/placement/check_shapes.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "tests/catch.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

TinyModel model_of_seed(std::uint64_t seed) {
  TinyTraits traits;
  traits.mix = "Q4_K_M";
  traits.layers = 2;
  traits.vocabulary = 256;
  traits.seed = seed;
  return make_tiny_model(traits);
}

CpuExecutor on_cpu(const TinyModel& tiny) {
  return CpuExecutor(std::make_shared<const Model>(tiny.model), {});
}

// An executor with wrong results only for batches of one size, like a GPU whose kernels for them
// were compiled to nothing: their outputs are what memory held.
class WrongBatches : public Executor {
 public:
  WrongBatches(Executor& right, std::size_t tokens, float wrong)
      : right_(right), tokens_(tokens), wrong_(wrong) {}

  std::span<const float> forward(std::span<const std::int32_t> tokens, Logits which) override {
    const auto logits = right_.forward(tokens, which);
    if (tokens.size() != tokens_) return logits;
    logits_.assign(logits.size(), wrong_);
    return logits_;
  }
  TokenCount cached() const override { return right_.cached(); }
  void truncate(TokenCount tokens) override { right_.truncate(tokens); }
  void fill(TokenCount tokens) override { right_.fill(tokens); }
  int threads() const override { return right_.threads(); }
  const Model& model() const override { return right_.model(); }
  MovedBytes take_bytes() override { return right_.take_bytes(); }
  DeviceMemory host() const override { return right_.host(); }

 private:
  Executor& right_;
  std::size_t tokens_;
  float wrong_;
  std::vector<float> logits_;
};

// The check's measure, squared difference over variance, of all logits after `tokens`.
double rounding_of(const CheckedModel& checked, std::span<const std::int32_t> tokens) {
  ThreadTeam team(1);
  auto made = make_synthetic_model(checked.spec, checked.table, 1, team);
  REQUIRE(made);
  const auto model = std::make_shared<const Model>(*std::move(made));
  const auto right = reference_logits(*model, tokens);
  CpuExecutor cpu(model, {});
  const auto own = cpu.forward(tokens, Logits::kAll);
  double mean = 0, squares = 0, error = 0;
  for (const auto& row : right)
    for (const float v : row) mean += double(v) / double(own.size());
  for (std::size_t i = 0, r = 0; r < right.size(); ++r)
    for (const float v : right[r]) {
      squares += std::pow(double(v) - mean, 2);
      error += std::pow(double(own[i++]) - double(v), 2);
    }
  return error / squares;
}

}  // namespace

TEST_CASE("The check of a GPU has every quantized format in every product, with experts too") {
  auto models = checked_models();
  REQUIRE(models);
  // Formats that few files have are checked with the first model that has them.
  const std::vector<CheckedModel> general = *models;
  for (const bool experts : {false, true})
    for (int f = int(QuantFormat::kMXFP4) + 1; f < kComputedFormatCount; ++f) {
      CheckedModel own = general[experts ? general.size() - 1 : 0];
      for (Tensor& t : own.table.tensors)
        if (t.dimensions >= 2 && t.role != TensorRole::kRouter && t.role != TensorRole::kBias)
          t.format = static_cast<QuantFormat>(f);
      const auto like = checked_model_like(own.spec, own.table);
      REQUIRE(like);
      REQUIRE(*like);
      models->push_back(**like);
    }
  std::set<std::pair<QuantFormat, TensorRole>> held;
  for (const CheckedModel& m : *models) {
    // Matrices of one product in formats of their own ask for other kernels: those do not count.
    std::map<int, std::set<QuantFormat>> of_layer;
    for (const Tensor& t : m.table.tensors)
      if (t.layer >= 0 && t.dimensions >= 2 && t.role != TensorRole::kRouter)
        of_layer[t.layer].insert(t.format);
    for (const Tensor& t : m.table.tensors)
      if (t.layer >= 0 && t.dimensions >= 2 && of_layer[t.layer].size() == 1)
        held.emplace(t.format, t.role);
  }
  using enum TensorRole;
  for (int f = 0; f < kComputedFormatCount; ++f) {
    const auto format = static_cast<QuantFormat>(f);
    if (info(format).block_elements == 1) continue;
    INFO(info(format).name);
    for (const TensorRole role : {kAttentionQ, kAttentionK, kAttentionV, kAttentionOutput, kFfnGate,
                                  kFfnUp, kFfnDown, kExpertGate, kExpertUp, kExpertDown})
      CHECK(held.contains({format, role}));
  }
}

TEST_CASE("Roundings of activations are far below what the check of a GPU allows") {
  const auto models = checked_models();
  REQUIRE(models);
  std::vector<std::int32_t> tokens(40);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::int32_t((i * 31 + 7) % 256);
  for (const CheckedModel& m : *models) {
    INFO(m.what);
    // A GPU rounds by the same rule, but at other places: at most twice the error, squared.
    CHECK(rounding_of(m, tokens) < kMaxRoundingDifference / 4);
  }
}

TEST_CASE("The check of a GPU has the traits of the model that is to run") {
  const std::filesystem::path models = std::string(test::source_dir()) + "/models";
  const auto mix = QuantMix::from_name("Q4_K_M");
  REQUIRE(mix);
  std::vector<std::int32_t> tokens(72);  // more than the window
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::int32_t((i * 31 + 7) % 256);
  std::set<std::string> seen;
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    if (entry.path().extension() != ".toml") continue;
    const auto spec = load_model_spec(entry.path());
    REQUIRE(spec);
    if (check_executable(*spec)) continue;
    const auto table = make_tensor_table(*spec, *mix);
    REQUIRE(table);
    const auto like = checked_model_like(*spec, *table);
    INFO(spec->id);
    REQUIRE(like);
    if (!*like || !seen.insert(spec->architecture).second) continue;
    const auto vectors = make_synthetic_vectors((*like)->spec, (*like)->table, 1);
    REQUIRE(vectors);
    const bool is_refused = check_shapes_on_gpu(*vectors).has_value();
    CHECK(is_refused == (spec->architecture == "phimoe"));  // by the biases of its norms
    if (is_refused) continue;
    CHECK((*like)->spec.architecture == spec->architecture);
    CHECK(rounding_of(**like, tokens) < kMaxRoundingDifference / 4);
  }
  for (const char* family :
       {"gemma2", "gemma3", "phi3", "granite", "olmo2", "smollm3", "glm4", "gpt-oss"})
    CHECK(seen.contains(family));
  const auto plain = load_model_spec(models / "llama-3.1-8b.toml");
  REQUIRE(plain);
  const auto table = make_tensor_table(*plain, *mix);
  REQUIRE(table);
  const auto like = checked_model_like(*plain, *table);
  REQUIRE(like);
  CHECK_FALSE(*like);
}

TEST_CASE("Executors that compute the same pass the check of a GPU") {
  const TinyModel tiny = model_of_seed(1);
  CpuExecutor one = on_cpu(tiny), other = on_cpu(tiny);
  CHECK(difference(one, other) == std::nullopt);
}

TEST_CASE("Other weights do not pass the check of a GPU") {
  const TinyModel tiny = model_of_seed(1), other = model_of_seed(2);
  CpuExecutor one = on_cpu(tiny), two = on_cpu(other);
  const auto wrong = difference(one, two);
  REQUIRE(wrong);
  CHECK(wrong->starts_with("a batch of 100 tokens differ by"));
}

TEST_CASE("The check of a GPU names the batches that are wrong") {
  const TinyModel tiny = model_of_seed(1);
  const auto [most, what] = GENERATE(table<std::size_t, std::string>(
      {{100, "a batch of 100 tokens"}, {40, "batches of 40 tokens"}, {1, "single tokens"}}));
  for (const float wrong : {0.0f, 7.0f, std::numeric_limits<float>::quiet_NaN()}) {
    CpuExecutor right = on_cpu(tiny), inner = on_cpu(tiny);
    WrongBatches broken(inner, most, wrong);
    const auto found = difference(broken, right);
    REQUIRE(found);
    CHECK(found->starts_with(what));
  }
}
