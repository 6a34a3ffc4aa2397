#include "engine/kernels/cuda/sampling/sample.cuh"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/run/sampler.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device_data.cuh"
#include "tests/engine/random_values.hpp"

namespace rigcast::engine::cuda {
namespace {

using engine::fixtures::normal_values;
using rigcast::fixtures::OnDevice;
using Ids = std::vector<std::int32_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

SamplingParams draw_of(const Sampling& s, std::uint64_t number = 0) {
  return {s.temperature, s.top_k, s.top_p, s.seed, number};
}

OnDevice<SampleState> state_of(const SamplingParams& draw) {
  std::vector<SampleState> state(1);
  state[0].params = draw;
  return OnDevice<SampleState>(state);
}

// Samples one after the other, each with the state that the previous one left.
Ids gpu_draws(const std::vector<float>& logits, const Sampling& sampling, int draws) {
  const Stream stream;
  const OnDevice<float> on_gpu(logits);
  const auto state = state_of(draw_of(sampling));
  const OnDevice<std::int32_t> ids{std::size_t(draws)};
  for (int i = 0; i < draws; ++i)
    sample(stream, on_gpu.get(), int(logits.size()), state.get(), {ids.get() + i, nullptr});
  return ids.read();
}

Ids host_draws(const std::vector<float>& logits, const Sampling& sampling, int draws) {
  Sampler sampler(sampling);
  Ids ids;
  for (int i = 0; i < draws; ++i) ids.push_back(sampler.next(logits));
  return ids;
}

void check(const std::vector<float>& logits, const Sampling& s, int draws) {
  INFO(logits.size() << " logits, temperature " << s.temperature << ", top_k " << s.top_k
                     << ", top_p " << s.top_p << ", seed " << s.seed);
  CHECK(gpu_draws(logits, s, draws) == host_draws(logits, s, draws));
}

// Whatever is kept.
void check_all(const std::vector<float>& logits, int draws) {
  for (const int top_k : {1, 40, 1024})
    for (const float top_p : {0.0f, 0.5f, 0.95f, 1.0f})
      check(logits, {.temperature = 0.8f, .top_k = top_k, .top_p = top_p, .seed = 11}, draws);
}

}  // namespace

TEST_CASE("Draws on a GPU are the host's", "[cuda][gpu]") {
  for (const std::size_t count : {1u, 31u, 1000u})
    check_all(normal_values(count, unsigned(count), 3), 1000);
  check_all(normal_values(128'256, 7, 3), 25);
  check(normal_values(262'144, 8, 2), {.temperature = 1}, 25);
}

TEST_CASE("Draws on a GPU at any temperature and of any seed", "[cuda][gpu]") {
  const auto logits = normal_values(3000, 5, 4);
  for (const float temperature : {1e-30f, 0.1f, 1.0f, 3.0f, 1e30f, kInfinity})
    for (const std::uint64_t seed : {0ull, 1ull, ~0ull})
      check(logits, {.temperature = temperature, .top_k = 100, .top_p = 0.9f, .seed = seed}, 300);
}

TEST_CASE("Of equal logits a GPU keeps those of lower ids, as the host does", "[cuda][gpu]") {
  for (const std::size_t count : {31u, 5000u, 40'000u}) {
    check_all(std::vector<float>(count, 2.5f), 60);
    auto steps = normal_values(count, 3, 2);
    for (float& v : steps) v = std::round(v);  // -0 is among them
    check_all(steps, 60);
  }
}

TEST_CASE("Logits that are nearly equal are told apart on a GPU", "[cuda][gpu]") {
  // All in one bin of the first count, of the second, and of the third.
  for (const float step : {0x1p-14f, 0x1p-19f, 0x1p-23f}) {
    std::vector<float> logits;
    for (unsigned i = 0; i < 20'000; ++i)
      logits.push_back(1.0f + float(i * 7919u % 20'000u % 0x4000u) * step);
    check(logits, {.temperature = 1, .top_k = 40, .top_p = 1, .seed = 2}, 200);
    check(logits, {.temperature = 1, .top_k = 1024, .top_p = 0.9f, .seed = 2}, 100);
  }
}

TEST_CASE("Infinities are drawn on a GPU as on the host", "[cuda][gpu]") {
  for (const std::size_t count : {31u, 5000u}) {
    const auto logits = normal_values(count, 4);
    for (const float odd : {kInfinity, -kInfinity}) {
      auto some = logits;
      for (std::size_t i = 0; i < count; i += 3) some[i] = odd;
      check_all(some, 50);
      check_all(std::vector<float>(count, odd), 20);
    }
    auto all = logits;
    all[5] = -kInfinity, all[7] = kInfinity, all[9] = kInfinity;
    check_all(all, 20);
  }
}

TEST_CASE("Where a logit is NaN a GPU draws no token", "[cuda][gpu]") {
  const Stream stream;
  for (const std::size_t count : {31u, 5000u, 40'000u})
    for (const bool all : {false, true}) {
      auto logits = normal_values(count, 4);
      logits[count / 2] = kNan;
      if (all) logits.assign(count, kNan);
      const OnDevice<float> values(logits);
      const auto state = state_of({1.0f, 40, 0.9f, 3, 17});
      const PinnedBuffer id(sizeof(std::int32_t));
      *id.as<std::int32_t>() = 7;
      sample(stream, values.get(), int(count), state.get(),
             {nullptr, id.on_device<std::int32_t>()});
      CHECK(state.read()[0].params.number == 18);
      CHECK(*id.as<std::int32_t>() == kNoToken);
    }
}

TEST_CASE("A draw leaves the state as it was, but for its number", "[cuda][gpu]") {
  const Stream stream;
  for (const bool equal : {false, true}) {  // of equal logits none is collected by all blocks
    const OnDevice<float> logits(equal ? std::vector<float>(9000, 1.0f) : normal_values(9000, 1));
    const SamplingParams draw{1.0f, 40, 0.9f, 3, 17};
    const auto state = state_of(draw);
    const PinnedBuffer id(sizeof(std::int32_t));
    *id.as<std::int32_t>() = -1;
    sample(stream, logits.get(), 9000, state.get(), {nullptr, id.on_device<std::int32_t>()});
    const SampleState after = state.read()[0];
    CHECK(*id.as<std::int32_t>() >= 0);
    CHECK(after.params == SamplingParams{1.0f, 40, 0.9f, 3, 18});
    CHECK(after.collected == 0);
    CHECK(after.done == 0);
    CHECK(std::ranges::count(after.counts, 0u) == SampleState::kBins);
  }
}

TEST_CASE("Draws of every kind, watched", "[cuda][gpu][sanitize]") {
  check(normal_values(9000, 2), {.temperature = 1, .top_k = 1024}, 2);
  check(std::vector<float>(9000, 1.0f), {.temperature = 1, .top_k = 40}, 2);
}

}  // namespace rigcast::engine::cuda
