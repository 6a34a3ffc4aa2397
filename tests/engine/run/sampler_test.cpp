#include "engine/run/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "core/base/error.hpp"
#include "engine/run/executor.hpp"
#include "engine/synth/counter_rng.hpp"
#include "tests/catch.hpp"

using namespace rigcast::engine;

TEST_CASE("Without temperature the likeliest token comes, of equals the first",
          "[engine][sampler]") {
  Sampler greedy({});
  CHECK(greedy.next(std::vector<float>{1, 3, 2, 3}) == 1);
  CHECK(greedy.next(std::vector<float>{NAN, 3, NAN, 4}) == 3);
  CHECK(greedy.next(std::vector<float>{-INFINITY, -5}) == 1);
  CHECK(greedy.next(std::vector<float>{NAN, NAN}) == 0);
  for (std::size_t n = 1; n < 70; ++n)
    for (std::size_t best = 0; best < n; ++best) {
      std::vector<float> logits(n, -1);
      logits[best] = 2;
      logits.back() = best + 1 == n ? 2 : 1;
      CHECK(greedy.next(logits) == std::int32_t(best));
    }
}

TEST_CASE("A logit that is not a number ends the generation", "[engine][sampler]") {
  for (const float temperature : {0.0f, 1.0f}) {
    Sampler sampler({.temperature = temperature});
    std::vector<float> logits(100, 1.0f);
    CHECK_NOTHROW(sample(sampler, logits, 1, nullptr));
    logits[97] = -INFINITY;
    CHECK_NOTHROW(sample(sampler, logits, 1, nullptr));
    logits[98] = NAN;
    CHECK_THROWS_AS(sample(sampler, logits, 1, nullptr), rigcast::MachineError);
    CHECK_THROWS_WITH(sample(sampler, logits, 1, nullptr),
                      Catch::Matchers::StartsWith("the logit of token 98 is not a number"));
  }
}

TEST_CASE("Tokens come as often as they are likely", "[engine][sampler]") {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  Sampler sampler({.temperature = 1, .top_k = 0, .top_p = 1, .seed = 3});
  std::map<int, int> seen;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++seen[sampler.next(logits)];
  // Five standard deviations of a binomial.
  for (const auto& [id, p] : std::map<int, double>{{0, 0.5}, {1, 0.3}, {2, 0.2}})
    CHECK(std::abs(seen[id] - kDraws * p) < 5 * std::sqrt(kDraws * p * (1 - p)));
}

TEST_CASE("Unlikely tokens are left out as asked", "[engine][sampler]") {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  Sampler two({.temperature = 1, .top_k = 2, .top_p = 1, .seed = 1});
  Sampler most({.temperature = 1, .top_k = 0, .top_p = 0.6f, .seed = 1});
  Sampler one({.temperature = 1, .top_k = 0, .top_p = 0.0f, .seed = 1});
  for (int i = 0; i < 2000; ++i) {
    CHECK(two.next(logits) != 2);
    CHECK(most.next(logits) != 2);
    CHECK(one.next(logits) == 0);
  }
}

// The token whose share of the sorted weights holds the draw.
static std::int32_t sampled_by_sorting_all(std::span<const float> logits, const Sampling& s,
                                           std::uint64_t draw) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](std::int32_t i) { return logits[std::size_t(i)]; };
  std::ranges::stable_sort(order, [&](auto a, auto b) { return logit(a) > logit(b); });
  if (s.top_k > 0) order.resize(std::min(order.size(), std::size_t(s.top_k)));
  std::vector<double> weights;
  for (const auto i : order)
    weights.push_back(std::exp(double(logit(i) - logit(order[0])) / double(s.temperature)));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;
  for (const double w : weights)
    if (kept < double(s.top_p) * all) kept += w;
  double left = double(random_word(s.seed, draw) >> 11) * 0x1p-53 * kept;
  std::size_t i = 0;
  while (i + 1 < order.size() && left >= weights[i]) left -= weights[i++];
  return order[i];
}

TEST_CASE("A large vocabulary is sampled as if all of it were sorted", "[engine][sampler]") {
  std::mt19937 random(5);
  for (const float spread : {0.5f, 3.0f}) {
    std::vector<float> logits(30000);
    std::normal_distribution<float> normal(0, spread);
    for (float& logit : logits) logit = normal(random);
    for (const int top_k : {0, 40, 5000})
      for (const float top_p : {1.0f, 0.9f, 0.1f}) {
        const Sampling sampling{.temperature = 0.8f, .top_k = top_k, .top_p = top_p, .seed = 9};
        Sampler sampler(sampling);
        for (std::uint64_t draw = 0; draw < 40; ++draw) {
          INFO("spread " << spread << ", top k " << top_k << ", top p " << top_p);
          CHECK(sampler.next(logits) == sampled_by_sorting_all(logits, sampling, draw));
        }
      }
  }
}

TEST_CASE("Infinite logits and extreme temperatures choose a token all the same",
          "[engine][sampler]") {
  constexpr std::size_t kCount = 5000;
  for (const float temperature : {1e-38f, 1.0f, 1e38f})
    for (const int top_k : {0, 40})
      for (const float top_p : {1.0f, 0.5f, 0.0f}) {
        INFO(temperature << ", top k " << top_k << ", top p " << top_p);
        Sampler sampler({.temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = 2});
        std::vector<float> logits(kCount, -INFINITY);
        const auto next = [&] {
          const std::int32_t id = sampler.next(logits);
          REQUIRE(id >= 0);
          REQUIRE(id < std::int32_t(kCount));
          return id;
        };
        next();
        logits[4000] = 1;
        CHECK(next() == 4000);
        logits[300] = INFINITY;
        CHECK(next() == 300);
        std::ranges::fill(logits, NAN);
        next();
      }
}

TEST_CASE("The same seed gives the same tokens", "[engine][sampler]") {
  const std::vector<float> logits(100, 0.0f);
  const auto draw = [&](std::uint64_t seed) {
    Sampler s({.temperature = 2, .top_k = 0, .top_p = 1, .seed = seed});
    std::vector<int> ids;
    for (int i = 0; i < 50; ++i) ids.push_back(s.next(logits));
    return ids;
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
}
