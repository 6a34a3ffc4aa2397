// Integer kernels of every instruction set against the definition: weights as the reference decodes
// them times activations as they were rounded. Only the order of the F32 sums differs.
#include "engine/kernels/cpu/int8/int8.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kernels/ref/quantize.hpp"
#include "tests/catch.hpp"
#include "tests/engine/random_values.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using fixtures::normal_values;

namespace {

const std::vector<QuantFormat> kFormats = {
    QuantFormat::kQ8_0,   QuantFormat::kQ4_0,  QuantFormat::kQ4_1,    QuantFormat::kQ5_0,
    QuantFormat::kQ5_1,   QuantFormat::kQ4_K,  QuantFormat::kQ5_K,    QuantFormat::kQ6_K,
    QuantFormat::kQ2_K,   QuantFormat::kQ3_K,  QuantFormat::kIQ4_NL,  QuantFormat::kIQ4_XS,
    QuantFormat::kMXFP4,  QuantFormat::kIQ1_S, QuantFormat::kIQ1_M,   QuantFormat::kIQ2_XXS,
    QuantFormat::kIQ2_XS, QuantFormat::kIQ2_S, QuantFormat::kIQ3_XXS, QuantFormat::kIQ3_S,
    QuantFormat::kTQ1_0,  QuantFormat::kTQ2_0, QuantFormat::kNVFP4};

// True if a second FP16 field follows a block's scale.
bool has_minima(QuantFormat f) {
  return f == QuantFormat::kQ4_K || f == QuantFormat::kQ5_K || f == QuantFormat::kQ4_1 ||
         f == QuantFormat::kQ5_1 || f == QuantFormat::kQ2_K;
}

// The offset of a block's FP16 scale.
std::size_t scale_at(QuantFormat f) {
  switch (f) {
    case QuantFormat::kQ6_K: return 208;
    case QuantFormat::kQ3_K: return 108;
    case QuantFormat::kQ2_K: return 80;
    case QuantFormat::kTQ1_0: return 52;
    case QuantFormat::kTQ2_0: return 64;
    default: return 0;
  }
}

// Sets the bits of `mask` of the 16 bits of a block's scale to `bits`.
void set_scale(QuantFormat f, std::byte* block, unsigned mask, unsigned bits) {
  const auto set = [](std::byte& b, unsigned m, unsigned v) {
    b = (b & ~std::byte(m)) | std::byte(v & m);
  };
  if (f == QuantFormat::kIQ1_M) {  // four bits on top of each of four words
    for (int k = 0; k < 4; ++k)
      set(block[49 + 2 * k], (mask >> (4 * k) & 15) << 4, (bits >> (4 * k) & 15) << 4);
    return;
  }
  for (std::size_t half = 0; half < (has_minima(f) ? 2u : 1u); ++half) {
    std::byte* const at = block + scale_at(f) + 2 * half;
    set(at[0], mask & 255, bits & 255);
    set(at[1], mask >> 8, bits >> 8);
  }
}

struct Weights {
  std::vector<std::byte> bytes;  // begins one byte late: rows are not aligned
  Matrix matrix;
  std::vector<float> values;
};

Weights weights_of(QuantFormat format, std::int64_t rows, std::int64_t columns, unsigned seed) {
  Weights w;
  w.matrix = {nullptr, format, columns, rows};
  w.bytes.resize(std::size_t(w.matrix.bytes()) + 1);
  const auto values = normal_values(std::size_t(rows * columns), seed, 0.05f);
  ref::quantize(format, values, w.bytes.data() + 1);
  w.matrix.data = w.bytes.data() + 1;
  w.values.resize(values.size());
  ref::dequantize(format, w.matrix.data, w.values);
  return w;
}

// The values of a row of activations after quantization.
std::vector<float> rounded_values(const cpu::QuantizedRow& x) {
  std::vector<float> v(x.q.size());
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = float(x.q[i]) * x.scale[i / 32];
  return v;
}

struct Sum {
  double value = 0, magnitude = 0;
};
Sum exact(const float* w, const std::vector<float>& x) {
  Sum s;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double product = double(w[i]) * double(x[i]);
    s.value += product;
    s.magnitude += std::fabs(product);
  }
  return s;
}

// Every product is rounded a few times (a, scale, b, their products), and n / 32 block sums are
// added one after the other in F32. u + offset doubles magnitudes: a * u and b cancel.
double bound(const Sum& s, std::int64_t columns) {
  constexpr double kEpsilon = 0x1p-24;
  return 64 * s.magnitude * kEpsilon * (6 + double(columns) / 32);
}

}  // namespace

TEST_CASE("Rounding keeps every activation within half a step", "[engine][int8]") {
  auto x = normal_values(4096, 3);
  x[100] = 50;                                            // an outlier spoils its own block alone
  for (std::size_t i = 320; i < 352; ++i) x[i] = 0;       // a block of zeros
  for (std::size_t i = 352; i < 384; ++i) x[i] = 1e-30f;  // tiny ones
  cpu::QuantizedRow row;
  row.resize(std::int64_t(x.size()));
  cpu::quantize_row(x, row);
  const auto back = rounded_values(row);
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO(i);
    CHECK(std::fabs(back[i] - x[i]) <= 0.5001f * row.scale[i / 32]);
  }
  for (std::size_t b = 0; b < x.size() / 16; ++b) {
    double sum = 0;
    for (std::size_t i = 0; i < 16; ++i) sum += double(back[16 * b + i]);
    CHECK(double(row.sum16[b]) == Approx(sum).margin(1e-5));
  }
}

TEST_CASE("A row that is rounded in parts is the whole row's rounding", "[engine][int8]") {
  for (const std::int64_t columns : {256, 1024, 1312, 14336}) {
    auto x = normal_values(std::size_t(columns), 3);
    x[5] = std::numeric_limits<float>::quiet_NaN();
    x[40] = std::numeric_limits<float>::infinity();
    std::fill_n(x.begin() + 64, 32, 1e-38f);  // 127 over it is no number
    x[70] = 0;
    cpu::QuantizedRow whole, parts;
    whole.resize(columns);
    parts.resize(columns);
    cpu::quantize_row(x, whole);
    for (std::int64_t first = 0; first < columns; first += 512)
      cpu::quantize_part(
          std::span(x).subspan(std::size_t(first), std::size_t(std::min(columns - first, 512L))),
          first, parts);
    CHECK(parts.q == whole.q);
    CHECK(parts.scale == whole.scale);
    CHECK(parts.sum32 == whole.sum32);
    CHECK(parts.sum16 == whole.sum16);
    CHECK(parts.k_q == whole.k_q);
    CHECK(parts.k_scale == whole.k_scale);
    CHECK(parts.scale16 == whole.scale16);
    CHECK(whole.q[5] == 0);
    CHECK(whole.scale[1] == 0);  // a block that holds an infinity is zeros
    CHECK(whole.q[40] == 0);
    CHECK(std::all_of(whole.q.begin() + 64, whole.q.begin() + 96, [](int q) { return q == 0; }));
  }
}

TEST_CASE("One row of every format equals its definition", "[engine][int8]") {
  for (const cpu::Int8Kernels* kernels : cpu::all_int8_kernels())
    for (const QuantFormat format : kFormats)
      for (const std::int64_t columns : {256, 512, 2304}) {
        INFO(kernels->name << " " << info(format).name << " " << columns);
        const Weights w = weights_of(format, 19, columns, 7);
        cpu::QuantizedRow x;
        x.resize(columns);
        cpu::quantize_row(normal_values(std::size_t(columns), 11), x);
        const auto values = rounded_values(x);
        std::vector<float> y(16, -1);
        kernels->multiply_row(w.matrix, 3, 19, x, y.data());
        for (std::size_t i = 0; i < y.size(); ++i) {
          const Sum s = exact(w.values.data() + (i + 3) * std::size_t(columns), values);
          CHECK(std::fabs(double(y[i]) - s.value) <= bound(s, columns));
        }
      }
}

TEST_CASE("Random blocks give the same through every instruction set", "[engine][int8]") {
  for (const cpu::Int8Kernels* kernels : cpu::all_int8_kernels())
    for (const QuantFormat format : kFormats)
      for (unsigned seed = 0; seed < 20; ++seed) {
        INFO(kernels->name << " " << info(format).name << " " << seed);
        const std::int64_t columns = 1024, rows = 4;
        Matrix w{nullptr, format, columns, rows};
        std::vector<std::byte> bytes(std::size_t(w.bytes()));
        std::mt19937 bits(seed);
        for (std::byte& b : bytes) b = std::byte(bits());
        // Scales of any sign and of exponents around 1: the others would be infinite or nothing.
        const std::size_t block = info(format).block_bytes;
        for (std::size_t at = 0; at < bytes.size(); at += block)
          if (format == QuantFormat::kMXFP4)
            bytes[at] = std::byte{0x78} | (bytes[at] & std::byte{7});
          else if (format != QuantFormat::kNVFP4)  // its scales are all finite
            set_scale(format, &bytes[at], 0x7800, 0x3800);
        w.data = bytes.data();
        std::vector<float> values(std::size_t(columns * rows));
        ref::dequantize(format, w.data, values);
        cpu::QuantizedRow x;
        x.resize(columns);
        cpu::quantize_row(normal_values(std::size_t(columns), seed + 50), x);
        std::vector<float> y(rows);
        kernels->multiply_row(w, 0, rows, x, y.data());
        for (std::size_t i = 0; i < y.size(); ++i) {
          const Sum s = exact(values.data() + i * std::size_t(columns), rounded_values(x));
          CHECK(std::fabs(double(y[i]) - s.value) <= bound(s, columns));
        }
      }
}

TEST_CASE("Rows of small blocks need not fill 128 or 256 weights", "[engine][int8]") {
  for (const cpu::Int8Kernels* kernels : cpu::all_int8_kernels())
    for (const QuantFormat format :
         {QuantFormat::kQ8_0, QuantFormat::kQ4_0, QuantFormat::kQ4_1, QuantFormat::kQ5_0,
          QuantFormat::kQ5_1, QuantFormat::kIQ4_NL, QuantFormat::kMXFP4, QuantFormat::kNVFP4})
      for (std::int64_t columns : {32, 96, 160, 288, 896}) {
        if (format == QuantFormat::kNVFP4) columns *= 2;
        INFO(kernels->name << " " << info(format).name << " " << columns);
        const Weights w = weights_of(format, 5, columns, 7);
        cpu::QuantizedRow x;
        x.resize(columns);
        cpu::quantize_row(normal_values(std::size_t(columns), 11), x);
        std::vector<float> y(5);
        kernels->multiply_row(w.matrix, 0, 5, x, y.data());
        const auto values = rounded_values(x);
        for (std::size_t i = 0; i < y.size(); ++i) {
          const Sum s = exact(w.values.data() + i * std::size_t(columns), values);
          CHECK(std::fabs(double(y[i]) - s.value) <= bound(s, columns));
        }
      }
}

TEST_CASE("A few rows give every bit of what each gives alone", "[engine][int8]") {
  for (const cpu::Int8Kernels* kernels : cpu::all_int8_kernels())
    for (const QuantFormat format : kFormats) {
      // Small blocks need not fill 128 or 256; rows end where nothing is prefetched any more.
      const std::int64_t weights = info(format).block_elements, rows = 37;
      const std::int64_t columns = weights == 256 ? 1280 : 1280 + weights;
      const Weights w = weights_of(format, rows, columns, 6);
      for (std::int64_t count = 1; count <= 11; ++count) {
        INFO(kernels->name << " " << info(format).name << " " << count);
        std::vector<cpu::QuantizedRow> x(static_cast<std::size_t>(count));
        std::vector<float> want(std::size_t(count * 40), -1.0f), got = want;
        for (std::int64_t t = 0; t < count; ++t) {
          x[std::size_t(t)].resize(columns);
          cpu::quantize_row(normal_values(std::size_t(columns), unsigned(50 + t)),
                            x[std::size_t(t)]);
          kernels->multiply_row(w.matrix, 0, rows, x[std::size_t(t)], want.data() + t * 40);
        }
        kernels->multiply_few(w.matrix, 0, 20, x.data(), count, got.data(), 40);
        kernels->multiply_few(w.matrix, 20, rows, x.data(), count, got.data(), 40);
        CHECK((got == want));
      }
    }
}

TEST_CASE("A batch gives every row what it gives alone", "[engine][int8]") {
  for (const cpu::Int8Kernels* kernels : cpu::all_int8_kernels())
    for (const QuantFormat format : kFormats) {
      const std::int64_t columns = 1280, rows = 37;  // more than a chunk, no whole tiles
      const Weights w = weights_of(format, rows, columns, 5);
      for (const std::int64_t tokens : {2, 8, 21}) {
        INFO(kernels->name << " " << info(format).name << " " << tokens);
        cpu::QuantizedBatch batch;
        batch.resize(columns, tokens);
        std::vector<cpu::QuantizedRow> alone(static_cast<std::size_t>(tokens));
        for (std::int64_t t = 0; t < tokens; ++t) {
          const auto x = normal_values(std::size_t(columns), unsigned(100 + t));
          cpu::quantize_row(x, batch, t);
          alone[std::size_t(t)].resize(columns);
          cpu::quantize_row(x, alone[std::size_t(t)]);
        }
        std::vector<float> y(std::size_t(tokens * 40), -1);
        cpu::TileScratch scratch;
        kernels->multiply_batch(w.matrix, 0, 32, batch, y.data(), 40, scratch);
        kernels->multiply_batch(w.matrix, 32, rows, batch, y.data(), 40, scratch);
        for (std::int64_t t = 0; t < tokens; ++t) {
          const auto values = rounded_values(alone[std::size_t(t)]);
          for (std::int64_t i = 0; i < rows; ++i) {
            const Sum s = exact(w.values.data() + i * columns, values);
            CHECK(std::fabs(double(y[std::size_t(t * 40 + i)]) - s.value) <= bound(s, columns));
          }
          CHECK(y[std::size_t(t * 40 + rows)] == -1);  // nothing past the last row
        }
      }
    }
}

TEST_CASE("A batch of few groups gives every bit of what a long one gives", "[engine][int8]") {
  constexpr std::int64_t kFew = 11, kMany = 41, kRows = 37;  // groups of 8: grouped, and tiled
  for (const cpu::Int8Kernels* kernels : cpu::all_int8_kernels())
    for (const QuantFormat format : kFormats) {
      const std::int64_t weights = info(format).block_elements;
      const std::int64_t columns = weights == 256 ? 1280 : 1280 + weights;
      INFO(kernels->name << " " << info(format).name);
      const Weights w = weights_of(format, kRows, columns, 7);
      cpu::TileScratch scratch;
      const auto product = [&](std::int64_t tokens) {
        cpu::QuantizedBatch batch;
        batch.resize(columns, tokens);
        for (std::int64_t t = 0; t < tokens; ++t)
          cpu::quantize_row(normal_values(std::size_t(columns), unsigned(200 + t)), batch, t);
        std::vector<float> y(std::size_t(tokens * kRows));
        kernels->multiply_batch(w.matrix, 0, kRows, batch, y.data(), kRows, scratch);
        y.resize(std::size_t(kFew * kRows));
        return y;
      };
      CHECK((product(kFew) == product(kMany)));
    }
}

TEST_CASE("The largest weights and activations do not overflow", "[engine][int8]") {
  // All bits set: the largest u of every format; activations of +-127 steps.
  for (const cpu::Int8Kernels* kernels : cpu::all_int8_kernels())
    for (const QuantFormat format : kFormats) {
      INFO(kernels->name << " " << info(format).name);
      Matrix w{nullptr, format, 512, 1};
      std::vector<std::byte> bytes(std::size_t(w.bytes()), std::byte{0xff});
      const std::uint32_t block = info(format).block_bytes;
      for (std::size_t at = 0; at < bytes.size(); at += block)
        if (format == QuantFormat::kMXFP4)
          bytes[at] = std::byte{127};  // 1.0
        else if (format != QuantFormat::kNVFP4)
          set_scale(format, &bytes[at], 0xffff, 0x3c00);
      w.data = bytes.data();
      std::vector<float> values(512), x(512, 127.0f);
      ref::dequantize(format, w.data, values);
      cpu::QuantizedRow row;
      row.resize(512);
      cpu::quantize_row(x, row);
      float y = 0;
      kernels->multiply_row(w, 0, 1, row, &y);
      const Sum s = exact(values.data(), rounded_values(row));
      CHECK(std::fabs(double(y) - s.value) <= bound(s, 512));
    }
}
