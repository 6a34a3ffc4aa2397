#include "engine/runtime/gpu_check.hpp"

#include <limits>

#include "engine/runtime/cpu_executor.hpp"
#include "tests/catch.hpp"
#include "tests/engine/executor_fixture.hpp"

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

// Right but for batches of one size, as a GPU is whose kernels for them were compiled to nothing:
// their vectors are what memory held.
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

}  // namespace

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
