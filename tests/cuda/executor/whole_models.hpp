#pragma once
// Tiny models on a GPU, and tolerances of their logits relative to the reference's.

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/backends/cuda/make_cuda_executor.hpp"
#include "tests/catch.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/logits_compare.hpp"

namespace rigcast::engine::fixtures {

inline std::unique_ptr<Executor> on_gpu(const TinyModel& tiny,
                                        const ExecutorOptions& options = {}) {
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

/// Tolerance of a batch: activations are rounded to FP16 before every product, by 2^-11 at most, a
/// third of whose square is the mean. So are weights in F32 and BF16, quantized weights of a large
/// batch, and in any case queries, keys, values and attention weights. Latent attention has three
/// products more, each with an input and a matrix, and rounds its queries once more. A
/// delta net has more products, as rounding_bound() counts them.
inline double half_bound(const TinyTraits& t) {
  constexpr double kOfOneRounding = 0x1p-22 / 3;
  const double of_layer = t.latent ? 23.0 : is_delta_net(t.architecture) ? 30.0 : 16.0;
  return kOfOneRounding * (of_layer * t.layers + 2);
}

/// The sizes of batches: single tokens, small batches, which read quantized weights, or large ones.
struct Way {
  const char* name;
  TokenCount ubatch;  // 1: one by one
};
inline constexpr Way kWays[] = {
    {"one by one", 1}, {"in short batches", 64}, {"in a long batch", 512}};

inline Agreement agreement_of(const TinyModel& tiny, const Way& way,
                              const std::vector<std::int32_t>& tokens,
                              const std::vector<std::vector<float>>& want,
                              ExecutorOptions options = {}) {
  options.ubatch = way.ubatch;
  const auto executor = on_gpu(tiny, options);
  return compare(way.ubatch > 1 ? together(*executor, tokens) : one_by_one(*executor, tokens),
                 want);
}

/// A model of three layers to be split between GPU and host, and the reference's logits.
struct KnownModel {
  TinyTraits traits;
  TinyModel tiny;
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<float>> want;  // logits of every token

  std::string name() const { return traits.architecture + " " + traits.mix; }
};

template <class Check>
void for_each_mix(TinyTraits traits, const std::vector<std::string>& mixes, const Check& check) {
  traits.layers = 3;
  for (const std::string& mix : mixes) {
    traits.mix = mix;
    KnownModel known{traits, model_of(traits), prompt_of(150, traits.vocabulary), {}};
    known.want = reference_logits(known.tiny, known.tokens);
    check(known);
  }
}

/// Checks that logits agree with the reference's within the rounding of both devices: the host
/// quantizes activations in batches of any length.
inline void check_near(const KnownModel& known, const Agreement& a) {
  const bool floats = is_float(known.traits.mix);
  const double bound = half_bound(known.traits) + (floats ? 0 : rounding_bound(known.traits));
  CAPTURE(a.mean_kl, a.nmse, a.top1, a.widest_lost_margin, bound);
  CHECK(a.mean_kl <= (floats ? 1e-3 : 5e-3));
  CHECK(a.nmse <= bound);
  CHECK(a.widest_lost_margin <= 6 * std::sqrt(2 * bound));
}

/// Compares the last logits of prompts of several lengths with the reference's, where nobody asks
/// for those of other tokens.
inline Agreement last_logits_agree(const KnownModel& known, const ExecutorOptions& options) {
  const auto executor = on_gpu(known.tiny, options);
  std::vector<float> got;
  std::vector<std::vector<float>> want;
  for (const std::size_t length : std::vector<std::size_t>{17, 29, 33, 48, 49, 59, 71, 90}) {
    const auto last = executor->forward({known.tokens.data(), length}, Logits::kLast);
    got.insert(got.end(), last.begin(), last.end());
    want.push_back(known.want[length - 1]);
    executor->truncate(0);
  }
  return compare(got, want);
}

/// The most likely tokens after a prompt of 40, one after the other.
inline std::vector<std::int32_t> greedy(const TinyModel& tiny, const ExecutorOptions& options,
                                        int tokens) {
  const auto executor = on_gpu(tiny, options);
  Sampler sampler({});
  std::vector<std::int32_t> ids{sampler.next(executor->forward(prompt_of(40, 500), Logits::kLast))};
  while (int(ids.size()) < tokens) ids.push_back(executor->decode(ids.back(), sampler));
  return ids;
}

}  // namespace rigcast::engine::fixtures
