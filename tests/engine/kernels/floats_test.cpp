// F32 products of every format against sums in double.
#include "engine/kernels/cpu/floats.hpp"

#include <cmath>
#include <vector>

#include "engine/kernels/ref/dequantize.hpp"
#include "tests/catch.hpp"
#include "tests/engine/random_values.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using fixtures::normal_values;

TEST_CASE("F32 products of every format equal their definition", "[engine][floats]") {
  for (int f = 0; f < kQuantFormatCount; ++f) {
    const QuantFormat format{static_cast<std::uint8_t>(f)};
    const std::int64_t columns = info(format).block_elements == 1 ? 519 : 768, rows = 41,
                       tokens = 11;
    INFO(info(format).name);
    Matrix w{nullptr, format, columns, rows};
    std::vector<std::byte> bytes(std::size_t(w.bytes()));
    ref::quantize(format, normal_values(std::size_t(rows * columns), 5, 0.1f), bytes.data());
    w.data = bytes.data();
    std::vector<float> values(std::size_t(rows * columns));
    ref::dequantize(format, w.data, values);

    cpu::FloatBatch batch;
    batch.resize(columns, tokens);
    std::vector<std::vector<float>> x;
    for (std::int64_t t = 0; t < tokens; ++t) {
      x.push_back(normal_values(std::size_t(columns), unsigned(t + 1)));
      batch.set_row(t, x.back());
    }
    std::vector<float> alone(static_cast<std::size_t>(rows)),
        together(std::size_t(tokens * 64), -1);
    cpu::FloatScratch scratch;
    cpu::multiply_batch_f32(w, 0, rows, batch, together.data(), 64, scratch);
    for (std::int64_t t = 0; t < tokens; ++t) {
      cpu::multiply_row_f32(w, 0, rows, x[std::size_t(t)].data(), alone.data());
      for (std::int64_t i = 0; i < rows; ++i) {
        double sum = 0, magnitude = 0;
        for (std::int64_t k = 0; k < columns; ++k) {
          const double p = double(values[std::size_t(i * columns + k)]) *
                           double(x[std::size_t(t)][std::size_t(k)]);
          sum += p;
          magnitude += std::fabs(p);
        }
        const double bound = magnitude * 0x1p-24 * double(columns);  // of any order of summing
        CHECK(std::fabs(double(alone[std::size_t(i)]) - sum) <= bound);
        CHECK(std::fabs(double(together[std::size_t(t * 64 + i)]) - sum) <= bound);
      }
      CHECK(together[std::size_t(t * 64 + rows)] == -1);
    }
  }
}
