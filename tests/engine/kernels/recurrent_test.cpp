// Convolutions and states of recurrent layers: kernels of the CPU beside the reference.

#include "engine/kernels/cpu/recurrent.hpp"

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/kernels/ref/recurrent.hpp"
#include "tests/catch.hpp"
#include "tests/engine/random_values.hpp"

using namespace rigcast::engine;
using fixtures::normal_values;

namespace {

// An error of a sum of n products, each rounded by 2^-24, in units of the sum of their sizes.
double rounding(std::size_t n) { return double(n + 4) * std::ldexp(1.0, -24); }

}  // namespace

TEST_CASE("Convolutions are the reference's for every kernel and width", "[engine][kernels]") {
  for (const std::size_t kernel : {std::size_t(2), std::size_t(3), std::size_t(4), std::size_t(7)})
    for (const std::size_t width : {std::size_t(1), std::size_t(15), std::size_t(64)}) {
      CAPTURE(kernel, width);
      const std::vector<float> taps = normal_values(kernel * width, 3);
      const std::vector<float> tokens = normal_values(kernel * width, 4);
      std::vector<const float*> rows;
      for (std::size_t t = 0; t < kernel; ++t) rows.push_back(tokens.data() + t * width);
      std::vector<float> got(width);
      cpu::convolve(rows, taps.data(), got);
      const auto end = tokens.end() - std::ptrdiff_t(width);
      std::vector<float> before(tokens.begin(), end);
      const std::vector<float> want = ref::convolve(taps, std::span(tokens).last(width), before);
      for (std::size_t i = 0; i < width; ++i)
        CHECK(double(got[i]) == Approx(double(want[i])).margin(16 * rounding(kernel)));
    }
}

TEST_CASE("States after several tokens are the reference's, replaced and added to",
          "[engine][kernels]") {
  constexpr std::size_t kTokens = 5;
  for (const bool replaces : {true, false})
    for (const auto& [rows, width] : {std::pair<std::size_t, std::size_t>{128, 128}, {33, 70}}) {
      CAPTURE(replaces, rows, width);
      std::vector<float> keys = normal_values(kTokens * width, 5);
      const std::vector<float> queries = normal_values(kTokens * width, 6);
      const std::vector<float> values = normal_values(kTokens * rows, 7);
      std::vector<float> state = normal_values(rows * width, 8), own = state;
      std::vector<float> got(kTokens * rows), want(kTokens * rows);
      std::vector<cpu::DeltaToken> tokens;
      for (std::size_t t = 0; t < kTokens; ++t) {
        const std::span<float> key(keys.data() + t * width, width);
        cpu::normalise(key, 1e-6f, 1);
        const float decay = 0.9f - 0.1f * float(t), part = 0.3f + 0.1f * float(t);
        tokens.push_back({queries.data() + t * width, key.data(), values.data() + t * rows, decay,
                          part, got.data() + t * rows, replaces});
        ref::delta_rule(state, {queries.data() + t * width, width}, key,
                        {values.data() + t * rows, rows}, {decay, part, replaces}, 1,
                        {want.data() + t * rows, rows});
      }
      cpu::delta_rule(own.data(), std::int64_t(rows), std::int64_t(width), tokens);
      // Values of a state are about 1, of which a query of as many sums up the roundings.
      const double bound = 16 * double(kTokens) * rounding(width) * std::sqrt(double(width));
      for (std::size_t i = 0; i < state.size(); ++i)
        CHECK(double(own[i]) == Approx(double(state[i])).margin(bound));
      for (std::size_t i = 0; i < want.size(); ++i)
        CHECK(double(got[i]) == Approx(double(want[i])).margin(bound));
    }
}

TEST_CASE("A vector without length stays one", "[engine][kernels]") {
  std::vector<float> zero(20, 0.0f);
  cpu::normalise(zero, 1e-6f, 1);
  for (const float v : zero) CHECK(v == 0.0f);
  std::vector<float> x = normal_values(37, 9), y = x;
  cpu::normalise(x, 1e-6f, 1);
  ref::normalise(y, 1e-6f);
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(double(x[i]) == Approx(double(y[i])).margin(16 * rounding(37)));
}
