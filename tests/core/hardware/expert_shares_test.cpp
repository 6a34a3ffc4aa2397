// What the GPU with the most experts has, where each has whole ones.
#include "core/hardware/expert_shares.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/catch.hpp"

using namespace rigcast;

TEST_CASE("The fullest GPU's share is the mean of a largest binomial number", "[experts]") {
  // One token with two experts of four on two GPUs: each GPU has its two experts with chance 1/2
  // each, so 0, 1 or 2 with 1/4, 1/2, 1/4. The larger of two such is 0, 1, 2 with 1/16, 8/16, 7/16.
  const FullestShare one = fullest_share(4, 2, 1, 2);
  CHECK(one.experts == Approx(22.0 / 16).epsilon(1e-12));
  // Its two rows go to either GPU with 1/2: the same numbers.
  CHECK(one.rows == Approx(22.0 / 16).epsilon(1e-12));
  CHECK(fullest_share(128, 8, 5, 1).experts == 1);
  // Many tokens go to all experts, as often.
  const FullestShare many = fullest_share(128, 8, 1e5, 8);
  CHECK(many.experts == Approx(1).epsilon(1e-9));
  CHECK((many.rows > 1 && many.rows < 1.01));
  CHECK(fullest_share(8, 8, 3, 4).experts == 1);
}

TEST_CASE("The fullest GPU's share of experts is as tokens that choose at random have it",
          "[experts]") {
  constexpr int kExperts = 64, kUsed = 6, kGpus = 4, kTrials = 4000;
  std::mt19937_64 random(7);
  for (const int tokens : {1, 4, 16}) {
    double sum = 0, squares = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<bool> touched(kExperts);
      std::vector<int> order(kExperts);
      for (int i = 0; i < kExperts; ++i) order[std::size_t(i)] = i;
      for (int token = 0; token < tokens; ++token) {
        std::ranges::shuffle(order, random);
        for (int i = 0; i < kUsed; ++i) touched[std::size_t(order[std::size_t(i)])] = true;
      }
      int most = 0;
      for (int gpu = 0; gpu < kGpus; ++gpu) {
        const auto begin = touched.begin() + gpu * kExperts / kGpus;
        most = std::max(most, int(std::count(begin, begin + kExperts / kGpus, true)));
      }
      sum += most;
      squares += double(most) * most;
    }
    const double mean = sum / kTrials;
    const double error = std::sqrt((squares / kTrials - mean * mean) / kTrials);
    const double touched = kExperts / kGpus * (1 - std::pow(1 - double(kUsed) / kExperts, tokens));
    const double forecast = fullest_share(kExperts, kUsed, tokens, kGpus).experts * touched;
    // Counts that add up to a given number are nearer to one another than independent ones: their
    // deviations are sqrt(1 - 1 / gpus) of those, and 1 over that is below 1 + 1 / gpus.
    CHECK(forecast >= mean - 4 * error);
    CHECK(forecast <= mean + 4 * error + (mean - touched) * 1.0 / kGpus);
  }
}
