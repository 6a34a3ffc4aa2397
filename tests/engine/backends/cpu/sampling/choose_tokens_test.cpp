#include "engine/backends/cpu/sampling/choose_tokens.hpp"

#include <atomic>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "core/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/engine/random_values.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using fixtures::normal_values;

namespace {

const Sampling kSamplings[] = {
    {},
    {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .seed = 1},
    {.temperature = 1.5f, .top_k = 1, .top_p = 1, .seed = 2},
    {.temperature = 1.0f, .top_k = 3000, .top_p = 0.99f, .seed = 3},
    {.temperature = 1.0f, .top_k = 0, .top_p = 1, .seed = 4},
    {.temperature = 0.7f, .top_k = 0, .top_p = 0.5f, .seed = 5},
};

}  // namespace

TEST_CASE("A team chooses the tokens that one thread chooses", "[engine][sampler]") {
  for (const int threads : {1, 2, 5}) {
    ThreadTeam team(threads);
    for (const std::size_t vocabulary : {std::size_t(1), std::size_t(100), std::size_t(30011)}) {
      INFO(threads << " threads, " << vocabulary << " tokens");
      auto values = normal_values(6 * vocabulary, unsigned(vocabulary), 2.0f);
      // Equal logits, of which the lower id comes first, lie in parts of different members.
      if (vocabulary > 100)
        for (const std::size_t i : {std::size_t(29000), std::size_t(7), std::size_t(15000)})
          for (std::size_t row = 0; row < 6; ++row) values[row * vocabulary + i] = 11.0f;
      std::vector<Sampler> alone, together;
      for (const Sampling& sampling : kSamplings) {
        alone.emplace_back(sampling);
        together.emplace_back(sampling);
      }
      for (int draw = 0; draw < 10; ++draw)
        for (const std::size_t count : {std::size_t(1), std::size_t(6)}) {
          std::vector<SampledLogits> rows;
          std::vector<std::optional<std::int32_t>> expected;
          for (std::size_t i = 0; i < count; ++i) {
            const std::size_t of = (i + std::size_t(draw)) % std::size(kSamplings);
            const auto logits = std::span(values).subspan(i * vocabulary, vocabulary);
            rows.push_back({&together[of], logits});
            expected.emplace_back(alone[of].next(logits));
          }
          CHECK(choose_tokens(team, rows) == expected);
        }
      for (std::size_t i = 0; i < alone.size(); ++i) CHECK(alone[i].drawn() == together[i].drawn());
    }
  }
}

TEST_CASE("A row with a logit that is not a number has no token, others have theirs",
          "[engine][sampler]") {
  constexpr std::size_t kVocabulary = 20000;
  ThreadTeam team(3);
  for (const std::size_t bad : {std::size_t(0), kVocabulary / 2, kVocabulary - 1})
    for (const Sampling& sampling : kSamplings) {
      auto values = normal_values(2 * kVocabulary, 7);
      values[bad] = std::numeric_limits<float>::quiet_NaN();
      values[kVocabulary + 5] = -std::numeric_limits<float>::infinity();
      Sampler of_bad(sampling), of_good(sampling), alone(sampling);
      const auto row = [&](std::size_t i) {
        return std::span(values).subspan(i * kVocabulary, kVocabulary);
      };
      const SampledLogits rows[] = {{&of_bad, row(0)}, {&of_good, row(1)}};
      const auto chosen = choose_tokens(team, rows);
      CHECK(chosen[0] == std::nullopt);
      CHECK(of_bad.drawn() == 0);
      CHECK(chosen[1] == alone.next(row(1)));
      CHECK_THROWS_WITH(sample(team, rows[0], 1, nullptr),
                        Catch::Matchers::Contains("the logit of token " + std::to_string(bad) +
                                                  " is not a number"));
    }
}

TEST_CASE("A team that is asked to stop draws nothing", "[engine][sampler]") {
  std::atomic<bool> asked = true;
  ThreadTeam team(2, ThreadTeam::kSpinTime, StopFlag(asked));
  const auto values = normal_values(20000, 9);
  Sampler sampler(kSamplings[1]);
  const SampledLogits row{&sampler, values};
  CHECK_THROWS_AS(choose_tokens(team, {&row, 1}), Interrupted);
  CHECK(sampler.drawn() == 0);
}
