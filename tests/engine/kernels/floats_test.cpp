// F32 products of the formats that are not rounded, against sums in double.
#include "engine/kernels/cpu/floats.hpp"

#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kernels/ref/quantize.hpp"
#include "tests/catch.hpp"
#include "tests/engine/random_values.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using fixtures::normal_values;

namespace {

constexpr QuantFormat kFormats[] = {QuantFormat::kF32, QuantFormat::kF16, QuantFormat::kBF16};

// Kernels of one instruction set are chosen in its scope, and the best again after it.
class OnlyTarget {
 public:
  explicit OnlyTarget(std::int64_t target) { choose(target); }
  ~OnlyTarget() { choose(0); }  // 0: all that the CPU has
  OnlyTarget(const OnlyTarget&) = delete;
  OnlyTarget& operator=(const OnlyTarget&) = delete;

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

struct Weights {
  std::vector<std::byte> bytes;
  std::vector<float> values;
  Matrix matrix;
};

Weights weights(QuantFormat format, std::int64_t columns, std::int64_t rows) {
  Weights w;
  w.matrix = {nullptr, format, columns, rows};
  w.bytes.resize(std::size_t(w.matrix.bytes()));
  ref::quantize(format, normal_values(std::size_t(rows * columns), 5, 0.1f), w.bytes.data());
  w.matrix.data = w.bytes.data();
  w.values.resize(std::size_t(rows * columns));
  ref::dequantize(format, w.matrix.data, w.values);
  return w;
}

struct Sum {
  double value = 0;
  double bound = 0;  // of any order of summing
};

Sum sum(const Weights& w, std::int64_t row, const float* x) {
  Sum s;
  for (std::int64_t k = 0; k < w.matrix.columns; ++k) {
    const double p = double(w.values[std::size_t(row * w.matrix.columns + k)]) * double(x[k]);
    s.value += p;
    s.bound += std::fabs(p) * 0x1p-24 * double(w.matrix.columns);
  }
  return s;
}

}  // namespace

// Columns and rows that no chunk and no tile divides; tokens of one vector, of a group and a part,
// and of several groups.
TEST_CASE("F32 products equal their definition", "[engine][floats]") {
  const std::int64_t target = GENERATE(from_range(hwy::SupportedAndGeneratedTargets()));
  const OnlyTarget only(target);
  INFO(hwy::TargetName(target));
  const auto format = GENERATE(from_range(std::begin(kFormats), std::end(kFormats)));
  const auto tokens = GENERATE(2, 11, 16, 32, 39, 70);
  const std::int64_t columns = 519, rows = 43, first = 3, last = 41, stride = 64;
  INFO(info(format).name << ", " << tokens << " tokens");
  const Weights w = weights(format, columns, rows);
  const std::vector<float> x = normal_values(std::size_t(tokens * columns), 7);
  cpu::FloatBatch batch;
  batch.resize(columns, tokens);
  for (std::int64_t t = 0; t < tokens; t += cpu::FloatBatch::kLine)
    batch.set_rows(
        t, std::span(x).subspan(std::size_t(t * columns),
                                std::size_t(std::min<std::int64_t>(16, tokens - t) * columns)));
  std::vector<float> alone(static_cast<std::size_t>(rows)),
      together(std::size_t(tokens * stride), -1);
  cpu::FloatScratch scratch;
  cpu::multiply_batch_f32(w.matrix, first, last, batch, together.data(), stride, scratch);
  for (std::int64_t t = 0; t < tokens; ++t) {
    cpu::multiply_row_f32(w.matrix, 0, rows, x.data() + t * columns, alone.data());
    for (std::int64_t i = 0; i < stride; ++i) {
      const float value = together[std::size_t(t * stride + i)];
      if (i < first || i >= last) {
        CHECK(value == -1);
        continue;
      }
      const Sum s = sum(w, i, x.data() + t * columns);
      CHECK(std::fabs(double(alone[std::size_t(i)]) - s.value) <= s.bound);
      CHECK(std::fabs(double(value) - s.value) <= s.bound);
    }
  }
}

TEST_CASE("Activations of a float batch may be set one by one or together, in any order",
          "[engine][floats]") {
  const std::int64_t columns = 300, tokens = 41;
  const std::vector<float> x = normal_values(std::size_t(tokens * columns), 7);
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return std::span(x).subspan(std::size_t(first * columns), std::size_t(count * columns));
  };
  cpu::FloatBatch single, several;
  single.resize(columns, tokens);
  several.resize(columns, tokens);
  for (std::int64_t t = tokens; t-- > 0;) single.set_row(t, rows(t, 1));
  for (const std::int64_t t : {32, 0, 16})
    several.set_rows(t, rows(t, std::min<std::int64_t>(16, tokens - t)));
  const Weights w = weights(QuantFormat::kF16, columns, 20);
  std::vector<float> a(std::size_t(tokens * 20)), b = a;
  cpu::FloatScratch scratch;
  cpu::multiply_batch_f32(w.matrix, 0, 20, single, a.data(), 20, scratch);
  cpu::multiply_batch_f32(w.matrix, 0, 20, several, b.data(), 20, scratch);
  CHECK(a == b);
}

// However rows are cut among threads, and however many tokens go along: chunks are summed alike.
TEST_CASE("A token's float products do not depend on pieces or on other tokens",
          "[engine][floats]") {
  const std::int64_t columns = 700, rows = 100, tokens = 50;
  const Weights w = weights(QuantFormat::kBF16, columns, rows);
  const std::vector<float> x = normal_values(std::size_t(tokens * columns), 7);
  const auto products = [&](std::int64_t count, std::int64_t piece) {
    cpu::FloatBatch batch;
    batch.resize(columns, count);
    for (std::int64_t t = 0; t < count; ++t)
      batch.set_row(t, std::span(x).subspan(std::size_t(t * columns), std::size_t(columns)));
    std::vector<float> y(std::size_t(count * rows));
    cpu::FloatScratch scratch;
    for (std::int64_t first = 0; first < rows; first += piece)
      cpu::multiply_batch_f32(w.matrix, first, std::min(rows, first + piece), batch, y.data(), rows,
                              scratch);
    return y;
  };
  const std::vector<float> all = products(tokens, rows);
  CHECK(products(tokens, 32) == all);
  for (const std::int64_t count : {2, 17, 33}) {
    std::vector<float> some = products(count, 64);
    CHECK(std::equal(some.begin(), some.end(), all.begin()));
  }
}

TEST_CASE("A few rows of floats give every bit of what each gives alone", "[engine][floats]") {
  const std::int64_t columns = 703, rows = 37;
  for (const QuantFormat format : {QuantFormat::kF32, QuantFormat::kF16, QuantFormat::kBF16}) {
    const Weights w = weights(format, columns, rows);
    for (std::int64_t count = 1; count <= 9; ++count) {
      const std::vector<float> x = normal_values(std::size_t(count * columns), 8);
      std::vector<float> want(std::size_t(count * 40), -1.0f), got = want;
      for (std::int64_t t = 0; t < count; ++t)
        cpu::multiply_row_f32(w.matrix, 0, rows, x.data() + t * columns, want.data() + t * 40);
      cpu::multiply_few_f32(w.matrix, 0, 20, x.data(), count, got.data(), 40);
      cpu::multiply_few_f32(w.matrix, 20, rows, x.data(), count, got.data(), 40);
      CHECK((got == want));
    }
  }
}
