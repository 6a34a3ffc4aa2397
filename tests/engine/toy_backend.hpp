#pragma once
// A backend with a GPU of its own, which shows what a new one has to have.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/backend.hpp"

namespace rigcast::engine::fixtures {

// The next token is always the last one plus one.
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
  std::vector<DeviceMemory> gpus() const override {
    DeviceMemory gpu;
    gpu.device = "Toy GPU";
    return {gpu};
  }
  DeviceMemory host() const override { return {}; }

 private:
  Model model_;
  TokenCount cached_ = 0;
  std::vector<float> logits_;
};

/// What was asked of the toy's GPU.
struct ToyCalls {
  int checks = 0;
  int executors = 0;
};

/// `free`: of the GPU's 8 GiB.
inline EngineBackend toy_backend(std::shared_ptr<ToyCalls> calls = std::make_shared<ToyCalls>(),
                                 Bytes free = 7_GiB) {
  GpuAccess access{[free] {
                     return Result<GpuDevice>(GpuDevice{"Toy GPU", 8_GiB, free, "1.0", false});
                   },
                   [calls](const ModelSpec&, const TensorTable&) -> std::optional<Error> {
                     ++calls->checks;
                     return std::nullopt;
                   },
                   [] {}};
  return {"toy", "a toy", std::move(access),
          [](const GgufFile&, const ExecutorOptions&) -> EngineBackend::Made {
            return bad_input("toys read no files");
          },
          [calls](const ModelSpec& spec, const TensorTable&, std::uint64_t,
                  const ExecutorOptions&) -> EngineBackend::Made {
            ++calls->executors;
            return std::unique_ptr<Executor>(
                std::make_unique<ToyExecutor>(std::size_t(spec.vocabulary)));
          }};
}

}  // namespace rigcast::engine::fixtures
