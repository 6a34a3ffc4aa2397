#include "engine/backends/backend.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

// An executor for tests: the next token is always the last one plus one.
class ToyExecutor : public Executor {
 public:
  explicit ToyExecutor(std::size_t vocabulary) : logits_(vocabulary) {}

  std::span<const float> forward(std::span<const std::int32_t> tokens, Logits) override {
    cached_ += TokenCount(tokens.size());
    std::ranges::fill(logits_, 0.0f);
    logits_[(std::size_t(tokens.back()) + 1) % logits_.size()] = 1;
    return logits_;
  }
  TokenCount cached() const override { return cached_; }
  void truncate(TokenCount tokens) override { cached_ = tokens; }
  void fill(TokenCount tokens) override { cached_ += tokens; }
  int threads() const override { return 0; }
  const Model& model() const override { return model_; }
  MovedBytes take_bytes() override { return {}; }
  DeviceMemory host() const override { return {}; }

 private:
  Model model_;
  TokenCount cached_ = 0;
  std::vector<float> logits_;
};

EngineBackend toy() {
  return {"toy",
          [] {
            return Result<GpuDevice>(GpuDevice{"Toy GPU", 8_GiB, 7_GiB, "1.0", false});
          },
          [](const GgufFile&, const ExecutorOptions&) -> EngineBackend::Made {
            return bad_input("toys read no files");
          },
          [](const ModelSpec& spec, const TensorTable&, std::uint64_t,
             const ExecutorOptions&) -> EngineBackend::Made {
            return std::unique_ptr<Executor>(
                std::make_unique<ToyExecutor>(std::size_t(spec.vocabulary)));
          }};
}

}  // namespace

TEST_CASE("A backend that is added is found by its name and makes executors", "[engine][backend]") {
  Backends backends = built_in_backends();
  backends.add(toy());
  CHECK(backends.names() == std::vector<std::string>{"cpu", "cuda", "toy"});
  const auto found = backends.find("toy");
  REQUIRE(found);
  CHECK((*found)->gpu()->name == "Toy GPU");
  ModelSpec spec;
  spec.vocabulary = 10;
  const auto executor = (*found)->synthetic(spec, {}, 1, {});
  REQUIRE(executor);
  Sampler sampler({});
  CHECK((*executor)->decode(3, sampler) == 4);
  CHECK((*executor)->cached() == 1);
  CHECK(built_in_backends().names() == std::vector<std::string>{"cpu", "cuda"});
}

TEST_CASE("A backend that is not there is an error that lists the others", "[engine][backend]") {
  const auto none = built_in_backends().find("metal");
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("metal") != std::string::npos);
  CHECK(none.error().hint.find("cpu, cuda") != std::string::npos);
}

TEST_CASE("A backend without a GPU of its own says so, others say why", "[engine][backend]") {
  CHECK_FALSE((*built_in_backends().find("cpu"))->gpu);
  const EngineBackend& cuda = **built_in_backends().find("cuda");
  REQUIRE(cuda.gpu);
  if (const auto gpu = cuda.gpu(); !gpu)
    CHECK(gpu.error().text().find("--device") != std::string::npos);
}
