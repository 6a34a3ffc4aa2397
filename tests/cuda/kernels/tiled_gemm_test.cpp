#include "engine/kernels/cuda/hopper/tiled_gemm.cuh"

#include <algorithm>

#include "engine/kernels/cuda/activations/elementwise.cuh"
#include "engine/kernels/cuda/hopper/tile_rows.cuh"
#include "tests/catch.hpp"
#include "tests/cuda/kernels/batch_products.cuh"
#include "tests/engine/random_values.hpp"

using namespace rigcast;
using engine::Stream;
namespace cuda = engine::cuda;
using engine::fixtures::normal_values;
using fixtures::BatchOnDevice;
using fixtures::BatchProduct;
using fixtures::OnDevice;
using fixtures::PlanesOnDevice;
using fixtures::WeightRow;
using fixtures::Weights;

namespace {

using enum QuantFormat;

// Activations of tokens that do not exist are NaN: they must not change what others get.
class Tiled {
 public:
  Tiled(const BatchOnDevice& x, int tokens)
      : tokens_(tokens),
        there_(std::vector<std::uint16_t>(
            std::size_t(cuda::padded_tokens(tokens)) * std::size_t(x.columns), 0x7E00)) {
    const Stream stream;
    cuda::tile_rows(stream, {x.get(), tokens}, x.columns, get());
    stream.wait();
  }
  __half* get() const { return reinterpret_cast<__half*>(there_.get()); }
  cuda::TiledBatch batch() const { return {get(), tokens_}; }

 private:
  int tokens_;
  OnDevice<std::uint16_t> there_;
};

constexpr QuantFormat kFormats[] = {kQ4_K, kQ5_K, kQ6_K, kQ8_0,   kQ4_0,
                                    kQ4_1, kQ5_0, kQ5_1, kIQ4_NL, kMXFP4};

struct Case {
  QuantFormat first, second;
  std::int64_t columns, rows;
};

std::vector<float> activations(int tokens, std::int64_t columns) {
  return normal_values(std::size_t(tokens) * std::size_t(columns), 3);
}

// Two jobs, of which the second has a bias; all adds to what is there.
void check(const Case& c, int tokens) {
  const Weights first(c.first, c.columns, c.rows), second(c.second, c.columns, 40, 5);
  const PlanesOnDevice soa(first), more(second);
  const BatchOnDevice x(activations(tokens, c.columns), c.columns);
  const Tiled tiled(x, tokens);
  const std::size_t rows = std::size_t(c.rows), stride = rows + 40 + 3;
  const std::vector<float> bias = normal_values(40, 8);
  const OnDevice<float> bias_there(bias);
  for (const bool add : {false, true}) {
    const std::size_t all = std::size_t(tokens) * stride;
    const std::vector<float> before = normal_values(all, 9);
    const OnDevice<float> out = add ? OnDevice<float>(before) : OnDevice<float>(all);
    const std::vector<float> poison = out.read();
    const Stream stream;
    const cuda::SmallBatchJob jobs[] = {{soa.matrix(), out.get()},
                                        {more.matrix(), out.get() + rows, bias_there.get()}};
    cuda::tiled_gemm(jobs, tiled.batch(), {std::int64_t(stride), add}, stream);
    const std::vector<float> got = out.read();
    double worst = 0;
    bool gaps_are_left = true;
    for (std::size_t row = 0; row < stride; ++row) {
      const bool gap = row >= rows + 40, in_first = row < rows;
      const WeightRow w(in_first || gap ? first : second, std::int64_t(gap        ? 0
                                                                       : in_first ? row
                                                                                  : row - rows));
      for (std::size_t t = 0; t < std::size_t(tokens); ++t) {
        const std::size_t i = t * stride + row;
        if (gap) {
          gaps_are_left &= std::memcmp(&got[i], &poison[i], 4) == 0;
          continue;
        }
        BatchProduct p = w.times(x.row(t));
        const auto plus = [&](double term) { p.value += term, p.terms += std::abs(term); };
        if (!in_first) plus(double(bias[row - rows]));
        if (add) plus(double(before[i]));
        worst =
            std::max(worst, fixtures::off(got[i], p.value, fixtures::batch_bound(p, c.columns)));
      }
    }
    INFO(fixtures::named(c.first, c.columns, c.rows)
         << ", " << info(c.second).name << ", " << tokens << " tokens" << (add ? ", added" : ""));
    CHECK(worst <= 1);
    CHECK(gaps_are_left);
  }
}

void check_gate_up(QuantFormat f, int tokens,
                   cuda::GateFunction function = cuda::GateFunction::kSilu,
                   std::int64_t rows = 768) {
  constexpr std::int64_t kColumns = 512;
  const std::int64_t padded = cuda::tiled_columns(rows);
  const Weights gate(f, kColumns, rows), up(f, kColumns, rows, 4);
  const PlanesOnDevice gate_there(gate), up_there(up);
  const BatchOnDevice x(activations(tokens, kColumns), kColumns);
  const Tiled tiled(x, tokens);
  const int room = cuda::tiled_tokens(tokens);
  const OnDevice<std::uint16_t> out(std::size_t(cuda::padded_tokens(tokens) * padded));
  const Stream stream;
  cuda::tiled_gate_up(gate_there.matrix(), up_there.matrix(), tiled.batch(),
                      reinterpret_cast<__half*>(out.get()), stream, function);
  const std::vector<std::uint16_t> there = out.read();
  std::vector<std::uint16_t> got;
  std::vector<fixtures::GatedUp> expected;
  const auto at = [&](std::int64_t row, int token) {
    return there[std::size_t(cuda::tiled_index(padded, row, token, room))];
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    const WeightRow g(gate, i), u(up, i);
    for (int t = 0; t < tokens; ++t) {
      got.push_back(at(i, t));
      const double* const row = x.row(std::size_t(t));
      expected.push_back(fixtures::gated_up(g.times(row), u.times(row), kColumns, function));
    }
  }
  INFO(info(f).name << ", " << tokens << " tokens");
  CHECK(fixtures::worst_of(got, expected) <= 1);
  int not_zero = 0;
  for (std::int64_t i = rows; i < padded; ++i)
    for (int t = 0; t < tokens; ++t) not_zero += at(i, t) != 0;
  CHECK(not_zero == 0);
}

// The product with what gate and up have written, whose rows end within a tile.
void check_part_of_tile(QuantFormat f, int tokens) {
  constexpr std::int64_t kColumns = 1120, kRows = 100;
  const Weights weights(f, kColumns, kRows);
  const PlanesOnDevice there(weights);
  const std::int64_t padded = cuda::tiled_columns(kColumns);
  const BatchOnDevice x(activations(tokens, kColumns), kColumns);
  std::vector<float> values(std::size_t(tokens * padded), 0.0f);
  const std::vector<float> own = activations(tokens, kColumns);
  for (int t = 0; t < tokens; ++t)
    std::copy_n(own.begin() + t * kColumns, kColumns, values.begin() + t * padded);
  const Tiled tiled(BatchOnDevice(values, padded), tokens);
  const OnDevice<float> out(std::size_t(tokens * kRows));
  const Stream stream;
  const cuda::SmallBatchJob job{there.matrix(), out.get()};
  cuda::tiled_gemm({&job, 1}, tiled.batch(), {kRows, false}, stream);
  const std::vector<float> got = out.read();
  double worst = 0;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const WeightRow w(weights, row);
    for (int t = 0; t < tokens; ++t) {
      const BatchProduct p = w.times(x.row(std::size_t(t)));
      worst = std::max(worst, fixtures::off(got[std::size_t(t * kRows + row)], p.value,
                                            fixtures::batch_bound(p, kColumns)));
    }
  }
  INFO(info(f).name << ", " << tokens << " tokens");
  CHECK(worst <= 1);
}

// Other GPUs do not run these kernels.
bool runs_here() {
  if (cuda::has_tiled_gemm()) return true;
  WARN("needs compute capability 9.0");
  return false;
}

}  // namespace

TEST_CASE("A format is tiled where this file tests it", "[cuda]") {
  for (const QuantFormat f : fixtures::kAllFormats) {
    INFO(info(f).name);
    CHECK(cuda::supports_tiled_gemm(f) == (std::ranges::find(kFormats, f) != std::end(kFormats)));
  }
}

TEST_CASE("Every column has one place in a tile", "[cuda]") {
  constexpr int kColumns = 2 * cuda::kTileColumns;
  for (const int tokens : {8, 16, 32, 64, 128, 512}) {
    std::vector<bool> taken(std::size_t(kColumns * tokens), false);
    for (int column = 0; column < kColumns; ++column)
      for (int token = 0; token < tokens; ++token) {
        const auto at =
            std::size_t(cuda::tiled_index(kColumns, column, token, cuda::tiled_tokens(tokens)));
        REQUIRE(at < taken.size());
        REQUIRE(!taken[at]);
        taken[at] = true;
      }
  }
}

TEST_CASE("Tiled rows, and their norm, are the same bits in another place", "[cuda][gpu]") {
  constexpr int kWidth = 1536;
  const int tokens = GENERATE(19, 300), room = cuda::tiled_tokens(tokens);
  const auto all = std::size_t(tokens * kWidth),
             padded = std::size_t(cuda::padded_tokens(tokens)) * kWidth;
  const OnDevice<float> x(normal_values(all, 1)), weight(normal_values(kWidth, 2)),
      bias(normal_values(kWidth, 3));
  const OnDevice<std::uint16_t> rows(all), tiled(padded), normed(padded);
  const auto halves = [](const OnDevice<std::uint16_t>& data) {
    return reinterpret_cast<__half*>(data.get());
  };
  const Stream stream;
  const cuda::Batch batch{tokens, kWidth};
  const cuda::Norm norm =
      GENERATE_REF(cuda::Norm{weight.get(), 1e-5f}, cuda::Norm{weight.get(), 1e-5f, true},
                   cuda::Norm{weight.get(), 1e-5f, true, bias.get()});
  const cuda::Rows floats{x.get(), cuda::ValueType::kF32, kWidth};
  cuda::rms_norm(stream, batch, floats, {}, norm, {rows.get(), cuda::ValueType::kF16, kWidth});
  cuda::tile_rows(stream, {halves(rows), tokens}, kWidth, halves(tiled));
  cuda::rms_norm_tiled(stream, batch, floats, norm, halves(normed));
  stream.wait();
  const auto expected = rows.read(), moved = tiled.read(), together = normed.read();
  std::size_t differ = 0;
  for (int token = 0; token < tokens; ++token)
    for (int i = 0; i < kWidth; ++i) {
      const auto at = std::size_t(cuda::tiled_index(kWidth, i, token, room));
      const std::uint16_t value = expected[std::size_t(token * kWidth + i)];
      differ += moved[at] != value || together[at] != value;
    }
  CHECK(differ == 0);
}

TEST_CASE("A tiled batch agrees with sums in double", "[cuda][sm_90][gpu]") {
  if (!runs_here()) return;
  for (const QuantFormat f : kFormats)
    for (const int tokens : {1, 7, 8, 9, 16, 17, 32, 33, 64, 65, 300}) {
      check({f, kQ6_K, 1280, 100}, tokens);
      check({f, f, 256, 33}, tokens);
    }
  // Clusters of four, three, five, six, seven and eight blocks, with unequal shares of rows, of
  // columns or of both.
  check({kQ4_K, kQ6_K, 256 * 8, 200}, 12);
  check({kQ4_K, kQ6_K, 256 * 9, 300}, 20);
  check({kQ4_K, kQ4_K, 256 * 10, 130}, 16);
  check({kQ4_K, kQ4_K, 256 * 17, 257}, 40);
  check({kQ6_K, kQ6_K, 256 * 35, 129}, 5);
  check({kQ5_K, kQ6_K, 256 * 56, 1}, 64);
  check({kQ4_K, kQ6_K, 256 * 56, 40}, 100);
  check({kQ4_K, kQ6_K, 256 * 16, 130}, 512);
  check({kQ6_K, kQ4_K, 1024, 40}, 3);  // two launches
}

TEST_CASE("Gate and up of a tiled batch", "[cuda][sm_90][gpu]") {
  if (!runs_here()) return;
  for (const QuantFormat f : kFormats)
    for (const int tokens : {3, 12, 32, 50}) check_gate_up(f, tokens);
  for (const int tokens : {90, 257}) check_gate_up(kQ6_K, tokens);
  for (const QuantFormat f : {kQ4_K, kQ8_0})
    for (const std::int64_t rows : {800, 33})  // which end within a tile
      for (const int tokens : {3, 50, 90, 300})
        check_gate_up(f, tokens, cuda::GateFunction::kSilu, rows);
}

TEST_CASE("Rows of a tiled batch end within a tile of columns", "[cuda][sm_90][gpu]") {
  if (!runs_here()) return;
  for (const QuantFormat f : {kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kIQ4_NL, kMXFP4})
    for (const int tokens : {3, 12, 50, 90, 300}) check_part_of_tile(f, tokens);
}

TEST_CASE("Gate and up of a tiled batch with GELU between them", "[cuda][sm_90][gpu][traits]") {
  if (!runs_here()) return;
  for (const int tokens : {3, 50})
    check_gate_up(QuantFormat::kQ4_K, tokens, cuda::GateFunction::kGelu);
}

TEST_CASE("A tiled batch is bit-identical in every run, whatever its neighbours are",
          "[cuda][sm_90][gpu]") {
  if (!runs_here()) return;
  constexpr std::int64_t kColumns = 35 * 256, kRows = 300;  // clusters of seven blocks
  for (const QuantFormat f : {kQ4_K, kQ6_K})
    for (const int tokens : {8, 64, 300}) {
      const Weights w(f, kColumns, kRows);
      const PlanesOnDevice soa(w);
      std::vector<float> x = activations(tokens, kColumns);
      const auto run = [&] {
        const BatchOnDevice there(x, kColumns);
        const Tiled tiled(there, tokens);
        const OnDevice<float> out(std::size_t(tokens) * kRows);
        const Stream stream;
        const cuda::SmallBatchJob job{soa.matrix(), out.get()};
        cuda::tiled_gemm({&job, 1}, tiled.batch(), {kRows}, stream);
        std::vector<float> got = out.read();
        got.resize(kRows);  // the first token
        return got;
      };
      const std::vector<float> first = run();
      CHECK(run() == first);
      std::fill(x.begin() + kColumns, x.end(), 77.0f);
      CHECK(run() == first);
    }
}
