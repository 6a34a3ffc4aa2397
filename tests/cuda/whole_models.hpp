#pragma once
// Tiny models on a GPU, and how far their logits may be from the reference's.

#include <memory>
#include <vector>

#include "engine/runtime/cuda_executor.hpp"
#include "tests/catch.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/logits_compare.hpp"

namespace rigcast::engine::fixtures {

inline std::unique_ptr<Executor> on_gpu(const TinyModel& tiny, const CudaOptions& options = {}) {
  auto made = make_cuda_executor(std::make_shared<const Model>(tiny.model), options);
  if (!made) FAIL(made.error().text());
  return *std::move(made);
}

inline std::vector<float> together(Executor& executor, const std::vector<std::int32_t>& tokens) {
  const auto logits = executor.forward(tokens, Logits::kAll);
  return {logits.begin(), logits.end()};
}

inline std::vector<float> one_by_one(Executor& executor, const std::vector<std::int32_t>& tokens) {
  std::vector<float> all;
  for (const std::int32_t& t : tokens) {
    const auto logits = executor.forward({&t, 1}, Logits::kLast);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

/// A batch's activations are rounded to halves before every product: by 2^-11 at most, a third of
/// whose square is the mean. Weights in F32 and BF16 are, too, and quantized ones of a long batch;
/// and so are queries, keys, values and shares of attention in any way.
inline double half_bound(const TinyTraits& t) {
  constexpr double kOfOneRounding = 0x1p-22 / 3;
  return kOfOneRounding * (16.0 * t.layers + 2);
}

/// How tokens are given: one by one, or in batches of which short ones read weights as they lie.
struct Way {
  const char* name;
  TokenCount ubatch;  // 1: one by one
};
inline constexpr Way kWays[] = {
    {"one by one", 1}, {"in short batches", 64}, {"in a long batch", 512}};

inline Agreement agreement_of(const TinyModel& tiny, const Way& way,
                              const std::vector<std::int32_t>& tokens,
                              const std::vector<std::vector<float>>& want,
                              CudaOptions options = {}) {
  options.ubatch = way.ubatch;
  const auto executor = on_gpu(tiny, options);
  return compare(way.ubatch > 1 ? together(*executor, tokens) : one_by_one(*executor, tokens),
                 want);
}

}  // namespace rigcast::engine::fixtures
