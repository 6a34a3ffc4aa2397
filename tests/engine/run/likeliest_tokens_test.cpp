#include "engine/run/likeliest_tokens.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "tests/catch.hpp"
#include "tests/engine/random_values.hpp"

using namespace rigcast::engine;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Of all tokens, sorted one by one.
std::vector<std::int32_t> likeliest(const std::vector<float>& logits, std::size_t count) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < logits.size(); ++i) ids.push_back(std::int32_t(i));
  const auto logit = [&](std::int32_t id) {
    const float value = logits[std::size_t(id)];
    return std::isnan(value) ? -kInfinity : value;
  };
  std::ranges::stable_sort(ids, [&](auto a, auto b) { return logit(a) > logit(b); });
  ids.resize(count);
  return ids;
}

}  // namespace

TEST_CASE("A ranked token keeps its logit and id, and is before those that are less likely",
          "[engine][sampler]") {
  const std::vector<float> falling = {kInfinity, 3e38f,   2.5f,  1e-45f,
                                      0.0f,      -1e-45f, -7.0f, -kInfinity};
  for (std::size_t i = 0; i < falling.size(); ++i) {
    const RankedToken token(falling[i], std::int32_t(200000 - i));
    CHECK(token.logit() == falling[i]);
    CHECK(token.id() == std::int32_t(200000 - i));
    if (i > 0) CHECK(RankedToken(falling[i - 1], 200000) < token);
    CHECK(token < RankedToken(falling[i], std::int32_t(200001 - i)));
  }
  CHECK(RankedToken(-0.0f, 1) < RankedToken(0.0f, 2));
  CHECK(RankedToken(0.0f, 1) < RankedToken(-0.0f, 2));
  CHECK(RankedToken(NAN, 1) == RankedToken(-kInfinity, 1));
}

TEST_CASE("Candidates have the likeliest tokens, and few more of many", "[engine][sampler]") {
  for (const std::size_t size : {1u, 15u, 16u, 300u, 5000u, 40001u}) {
    std::vector<std::vector<float>> all = {fixtures::normal_values(size, unsigned(size)),
                                           std::vector<float>(size, 1.0f),
                                           std::vector<float>(size, -kInfinity)};
    all.push_back(all[0]);
    for (std::size_t i = 0; i < size; i += 3) all[3][i] = NAN;
    all.push_back(all[0]);
    for (float& logit : all[4]) logit = std::round(logit);  // many are equal
    for (const std::vector<float>& logits : all)
      for (const std::size_t wanted : {1u, 2u, 40u, 1000u, 40001u}) {
        if (wanted > size) continue;
        INFO(wanted << " of " << size);
        auto tokens = candidates_of(logits, wanted, 7);
        REQUIRE(tokens.size() >= wanted);
        sort_likeliest(wanted, tokens);
        std::vector<std::int32_t> ids;
        for (std::size_t i = 0; i < wanted; ++i) ids.push_back(tokens[i].id() - 7);
        CHECK(ids == likeliest(logits, wanted));
      }
  }
  const auto logits = fixtures::normal_values(100000, 3);
  // Where a share p of the blocks has one, a block has -ln(1 - p) on average: 42 and 1,090 in all,
  // by a Poisson distribution. Six deviations more.
  CHECK(candidates_of(logits, 40).size() < 42 + 6 * 7);
  CHECK(candidates_of(logits, 1000).size() < 1090 + 6 * 33);
}

TEST_CASE("One logit that is not a number is found wherever it is", "[engine][sampler]") {
  std::vector<float> logits(1000, -kInfinity);
  logits[3] = kInfinity;
  CHECK_FALSE(any_nan(logits));
  for (std::size_t i = 0; i < logits.size(); ++i)
    for (const float bad : {NAN, -NAN}) {
      const float kept = std::exchange(logits[i], bad);
      CHECK(any_nan(logits));
      logits[i] = kept;
    }
}
