#include "engine/cuda/cublas/matmul.cuh"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "engine/kernels/ref/half.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device_data.cuh"
#include "tests/engine/random_values.hpp"

namespace rigcast::engine::cuda {
namespace {

using engine::fixtures::normal_values;
using rigcast::fixtures::OnDevice;
using Narrow = std::vector<std::uint16_t>;

Narrow narrowed(const std::vector<float>& values, ValueType type) {
  Narrow out;
  for (const float v : values)
    out.push_back(type == ValueType::kF16 ? ref::float_to_half(v) : ref::float_to_bfloat(v));
  return out;
}

float widened(std::uint16_t bits, ValueType type) {
  return type == ValueType::kF16 ? ref::half_to_float(bits) : ref::bfloat_to_float(bits);
}

std::vector<float> widened(const Narrow& values, ValueType type) {
  std::vector<float> out;
  for (const std::uint16_t v : values) out.push_back(widened(v, type));
  return out;
}

struct Sums {
  std::vector<double> value, magnitude;  // of the products, and of their magnitudes
};

Sums products(const Matmul::Shape& s, const std::vector<float>& weights,
              const std::vector<float>& x) {
  Sums sums;
  for (int t = 0; t < s.tokens; ++t)
    for (int r = 0; r < s.rows; ++r) {
      double value = 0, magnitude = 0;
      for (int c = 0; c < s.columns; ++c) {
        const double p = double(weights[std::size_t(r * s.columns + c)]) *
                         double(x[std::size_t(t * s.columns + c)]);
        value += p;
        magnitude += std::abs(p);
      }
      sums.value.push_back(value);
      sums.magnitude.push_back(magnitude);
    }
  return sums;
}

std::size_t count(int a, int b) { return std::size_t(a) * std::size_t(b); }

std::vector<float> small_whole_numbers(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> out(n);
  for (float& v : out) v = float(int(random() % 17) - 8);
  return out;
}

const std::vector<Matmul::Shape> kShapes = {
    {128, 256, 1}, {256, 128, 3}, {96, 4096, 17}, {1024, 512, 128}, {1000, 264, 33}};

}  // namespace

TEST_CASE("Products of small whole numbers are exact, and added exactly", "[cuda][gpu]") {
  Vram vram(0, std::nullopt);
  const Stream stream;
  const Matmul matmul(vram, stream);
  // Sums stay below 2^24 in magnitude, so no order of adding rounds.
  for (const ValueType in : {ValueType::kF16, ValueType::kBF16})
    for (const Matmul::Shape& s : kShapes) {
      INFO(s.rows << " x " << s.columns << " with " << s.tokens << " tokens");
      const auto weights = small_whole_numbers(count(s.rows, s.columns), 1);
      const auto x = small_whole_numbers(count(s.tokens, s.columns), 2);
      const auto before = small_whole_numbers(count(s.tokens, s.rows), 3);
      const OnDevice<std::uint16_t> on_gpu(narrowed(weights, in)), batch(narrowed(x, in));
      const OnDevice<float> y(count(s.tokens, s.rows)), sum(before);
      matmul.multiply(s, {on_gpu.get(), batch.get(), in, y.get(), ValueType::kF32, false});
      matmul.multiply(s, {on_gpu.get(), batch.get(), in, sum.get(), ValueType::kF32, true});
      const Sums expected = products(s, weights, x);
      const auto got = y.read(), got_sum = sum.read();
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < got.size(); ++i)
        wrong += double(got[i]) != expected.value[i] ||
                 double(got_sum[i]) != expected.value[i] + double(before[i]);
      CHECK(wrong == 0);
    }
}

TEST_CASE("Products are within what sums in F32 may lose", "[cuda][gpu]") {
  Vram vram(0, std::nullopt);
  const Stream stream;
  const Matmul matmul(vram, stream);
  for (const ValueType in : {ValueType::kF16, ValueType::kBF16})
    for (const Matmul::Shape& s : kShapes) {
      INFO(s.rows << " x " << s.columns << " with " << s.tokens << " tokens");
      const auto weights = narrowed(normal_values(count(s.rows, s.columns), 4), in);
      const auto x = narrowed(normal_values(count(s.tokens, s.columns), 5), in);
      const OnDevice<std::uint16_t> on_gpu(weights), batch(x);
      const OnDevice<float> y(count(s.tokens, s.rows));
      matmul.multiply(s, {on_gpu.get(), batch.get(), in, y.get(), ValueType::kF32, false});
      const Sums expected = products(s, widened(weights, in), widened(x, in));
      const auto got = y.read();
      std::size_t outside = 0;
      // Tensor cores cut off where others round: 2^-23 of the sum for each product, at most.
      for (std::size_t i = 0; i < got.size(); ++i)
        outside += !(std::abs(double(got[i]) - expected.value[i]) <=
                     s.columns * 0x1p-23 * expected.magnitude[i]);
      CHECK(outside == 0);
    }
}

TEST_CASE("Results may be FP16", "[cuda][gpu]") {
  Vram vram(0, std::nullopt);
  const Stream stream;
  const Matmul matmul(vram, stream);
  for (const Matmul::Shape& s : kShapes) {
    INFO(s.rows << " x " << s.columns << " with " << s.tokens << " tokens");
    const auto weights = narrowed(normal_values(count(s.rows, s.columns), 6), ValueType::kF16);
    const auto x = narrowed(normal_values(count(s.tokens, s.columns), 7), ValueType::kF16);
    const OnDevice<std::uint16_t> on_gpu(weights), batch(x), y(count(s.tokens, s.rows));
    matmul.multiply(s,
                    {on_gpu.get(), batch.get(), ValueType::kF16, y.get(), ValueType::kF16, false});
    const Sums expected =
        products(s, widened(weights, ValueType::kF16), widened(x, ValueType::kF16));
    const auto got = y.read();
    std::size_t outside = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double sum_bound = s.columns * 0x1p-23 * expected.magnitude[i];
      const double bound = sum_bound + 0x1p-11 * (std::abs(expected.value[i]) + sum_bound);
      outside += !(std::abs(double(widened(got[i], ValueType::kF16)) - expected.value[i]) <= bound);
    }
    CHECK(outside == 0);
  }
}

TEST_CASE("Products can be recorded and run again", "[cuda][gpu]") {
  Vram vram(0, std::nullopt);
  const Stream stream;
  const Matmul matmul(vram, stream);
  const Matmul::Shape s{256, 512, 64};
  const auto weights = small_whole_numbers(count(s.rows, s.columns), 8);
  const auto x = small_whole_numbers(count(s.tokens, s.columns), 9);
  const OnDevice<std::uint16_t> on_gpu(narrowed(weights, ValueType::kF16)),
      batch(narrowed(x, ValueType::kF16));
  const OnDevice<float> y(std::vector<float>(count(s.tokens, s.rows), 0.0f));
  const Matmul::Operands at{on_gpu.get(), batch.get(),     ValueType::kF16,
                            y.get(),      ValueType::kF32, true};
  const RecordedGraph graph(stream, [&] { matmul.multiply(s, at); });
  for (int i = 0; i < 3; ++i) graph.launch(stream);
  const Sums expected = products(s, weights, x);
  const auto got = y.read();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) wrong += double(got[i]) != 3 * expected.value[i];
  CHECK(wrong == 0);
}

TEST_CASE("The library's workspace counts against the limit", "[cuda][gpu]") {
  Vram vram(0, 1_MiB);
  const Stream stream;
  try {
    const Matmul matmul(vram, stream);
    FAIL("nothing was thrown");
  } catch (const MachineError& error) {
    CHECK(std::string(error.what()).find("32.0 MiB asked for the workspace of cuBLAS") !=
          std::string::npos);
  }
}

TEST_CASE("Products are loaded in less memory than they take later, and multiply as before",
          "[cuda][gpu]") {
  Vram vram(0, 32_MiB);
  constexpr ValueType kResults[] = {ValueType::kF32, ValueType::kF16};
  load_products(vram, kResults);
  CHECK(vram.held() == 0_B);
  CHECK(vram.peak_held() <= 8_MiB);
  const Stream stream;
  const Matmul matmul(vram, stream);  // all of the limit
  Vram tight(0, 4_MiB);
  CHECK_THROWS_AS(load_products(tight, kResults), MachineError);
  CHECK(tight.held() == 0_B);
}

}  // namespace rigcast::engine::cuda
