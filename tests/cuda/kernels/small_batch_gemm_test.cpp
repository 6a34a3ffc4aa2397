#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/cuda/kernels/batch_products.cuh"
#include "tests/engine/random_values.hpp"

using namespace rigcast;
using engine::Stream;
namespace cuda = engine::cuda;
namespace ref = engine::ref;
using engine::fixtures::normal_values;
using fixtures::BatchOnDevice;
using fixtures::BatchProduct;
using fixtures::OnDevice;
using fixtures::PlanesOnDevice;
using fixtures::WeightRow;
using fixtures::Weights;

namespace {

constexpr QuantFormat kFormats[] = {
    QuantFormat::kQ4_0,   QuantFormat::kQ4_1,  QuantFormat::kQ5_0,    QuantFormat::kQ5_1,
    QuantFormat::kQ8_0,   QuantFormat::kQ4_K,  QuantFormat::kQ5_K,    QuantFormat::kQ6_K,
    QuantFormat::kQ2_K,   QuantFormat::kQ3_K,  QuantFormat::kIQ4_NL,  QuantFormat::kIQ4_XS,
    QuantFormat::kMXFP4,  QuantFormat::kIQ1_S, QuantFormat::kIQ1_M,   QuantFormat::kIQ2_XXS,
    QuantFormat::kIQ2_XS, QuantFormat::kIQ2_S, QuantFormat::kIQ3_XXS, QuantFormat::kIQ3_S,
    QuantFormat::kTQ1_0,  QuantFormat::kTQ2_0, QuantFormat::kNVFP4};

std::vector<float> activations(int tokens, std::int64_t columns) {
  return normal_values(std::size_t(tokens) * std::size_t(columns), 3);
}

struct Case {
  QuantFormat format;
  std::int64_t columns, rows;
  cuda::SmallBatchSplit cut{};
  std::string name() const {
    return fixtures::named(format, columns, rows) + ", cut " + std::to_string(cut.tokens) + "/" +
           std::to_string(cut.row_warps);
  }
};

// Two jobs in one launch, of which the second has a bias; all adds to what is there.
void check(const Case& c, const std::vector<int>& counts) {
  const Weights first(c.format, c.columns, c.rows), second(c.format, c.columns, 40, 5);
  const PlanesOnDevice soa(first), more(second);
  const int most = *std::ranges::max_element(counts);
  const BatchOnDevice x(activations(most, c.columns), c.columns);
  const std::size_t rows = std::size_t(c.rows), stride = rows + 40 + 3;
  const std::vector<float> bias = normal_values(40, 8);
  const OnDevice<float> bias_there(bias);
  std::vector<BatchProduct> expected(std::size_t(most) * (rows + 40));
  for (std::size_t i = 0; i < rows + 40; ++i) {
    const WeightRow row(i < rows ? first : second, std::int64_t(i < rows ? i : i - rows));
    for (std::size_t t = 0; t < std::size_t(most); ++t)
      expected[t * (rows + 40) + i] = row.times(x.row(t));
  }
  for (const int tokens : counts)
    for (const bool add : {false, true}) {
      const std::size_t all = std::size_t(tokens) * stride;
      const std::vector<float> before = normal_values(all, 9);
      const OnDevice<float> out = add ? OnDevice<float>(before) : OnDevice<float>(all);
      const std::vector<float> poison = out.read();
      const Stream stream;
      const cuda::SmallBatchJob jobs[] = {{soa.matrix(), out.get()},
                                          {more.matrix(), out.get() + rows, bias_there.get()}};
      cuda::small_batch_gemm(jobs, {x.get(), tokens}, {std::int64_t(stride), add}, stream, c.cut);
      const std::vector<float> got = out.read();
      double worst = 0;
      bool gaps_are_left = true;
      for (std::size_t i = 0; i < all; ++i) {
        const std::size_t t = i / stride, row = i % stride;
        if (row >= rows + 40) {
          gaps_are_left &= std::memcmp(&got[i], &poison[i], 4) == 0;
          continue;
        }
        BatchProduct p = expected[t * (rows + 40) + row];
        const auto plus = [&](double term) { p.value += term, p.terms += std::abs(term); };
        if (row >= rows) plus(double(bias[row - rows]));
        if (add) plus(double(before[i]));
        worst =
            std::max(worst, fixtures::off(got[i], p.value, fixtures::batch_bound(p, c.columns)));
      }
      INFO(c.name() << ", " << tokens << " tokens" << (add ? ", added" : ""));
      CHECK(worst <= 1);
      CHECK(gaps_are_left);
    }
}

bool is_k(QuantFormat f) { return info(f).block_elements == 256; }

const std::vector<int> kCounts = {1, 2, 7, 8, 9, 31, 33, 64, 65, 128};

}  // namespace

TEST_CASE("A format is taken as it lies where this file tests it", "[cuda]") {
  for (const QuantFormat f : fixtures::kAllFormats) {
    INFO(info(f).name);
    CHECK(cuda::supports_small_batch_gemm(f) ==
          (std::ranges::find(kFormats, f) != std::end(kFormats)));
  }
}

TEST_CASE("A small batch agrees with sums in double", "[cuda][sm_80][gpu][formats]") {
  for (const QuantFormat f : kFormats) {
    check({f, 1280, 100}, kCounts);
    const std::int64_t block = info(f).block_elements;
    check({f, block, 33}, kCounts);
    check({f, is_k(f) ? 768 : 5 * block, 1}, {2, 17});
    check({f, 4096, 257}, {5, 40});
  }
}

TEST_CASE("A small batch may be split in any way", "[cuda][sm_80][gpu]") {
  for (const QuantFormat f : kFormats)
    for (const int tokens : {16, 32, 64})
      for (const int row_warps : {1, 2, 4, 8})
        check({f, info(f).block_elements == 256 ? 2560 : 2496, 300, {tokens, row_warps}}, {3, 70});
}

TEST_CASE("A small batch is bit-identical in every run", "[cuda][sm_80][gpu]") {
  for (const QuantFormat f : {QuantFormat::kQ4_K, QuantFormat::kQ6_K, QuantFormat::kQ8_0}) {
    const Weights w(f, 4096, 512);
    const PlanesOnDevice soa(w);
    const BatchOnDevice x(activations(100, 4096), 4096);
    const auto run = [&] {
      const OnDevice<float> out(100 * 512);
      const Stream stream;
      const cuda::SmallBatchJob job{soa.matrix(), out.get()};
      cuda::small_batch_gemm({&job, 1}, {x.get(), 100}, {512}, stream);
      return out.read();
    };
    CHECK(run() == run());
  }
}

namespace {

void check_gate_up(QuantFormat f, QuantFormat up_format, int tokens,
                   cuda::GateFunction function = cuda::GateFunction::kSilu) {
  constexpr std::int64_t kColumns = 512, kRows = 290;
  const Weights gate(f, kColumns, kRows), up(up_format, kColumns, kRows, 4);
  const PlanesOnDevice gate_there(gate), up_there(up);
  const BatchOnDevice x(activations(tokens, kColumns), kColumns);
  const std::size_t count = std::size_t(tokens) * kRows;
  const OnDevice<float> gate_out(count);
  const OnDevice<std::uint16_t> out(count);
  const Stream stream;
  cuda::small_batch_gate_up(gate_there.matrix(), up_there.matrix(), {x.get(), tokens},
                            gate_out.get(), reinterpret_cast<__half*>(out.get()), stream, {},
                            function);
  std::vector<fixtures::GatedUp> expected(count);
  for (std::size_t i = 0; i < std::size_t(kRows); ++i) {
    const WeightRow g(gate, std::int64_t(i)), u(up, std::int64_t(i));
    for (std::size_t t = 0; t < std::size_t(tokens); ++t)
      expected[t * kRows + i] =
          fixtures::gated_up(g.times(x.row(t)), u.times(x.row(t)), kColumns, function);
  }
  INFO(info(f).name << ", " << info(up_format).name << ", " << tokens << " tokens");
  CHECK(fixtures::worst_of(out.read(), expected) <= 1);
}

}  // namespace

TEST_CASE("Gate and up of a small batch", "[cuda][sm_80][gpu]") {
  for (const QuantFormat f : kFormats) check_gate_up(f, f, 37);
  check_gate_up(QuantFormat::kQ4_K, QuantFormat::kQ6_K, 70);
}

TEST_CASE("Gate and up of a small batch with GELU between them", "[cuda][sm_80][gpu][traits]") {
  for (const QuantFormat f : {QuantFormat::kQ8_0, QuantFormat::kQ4_K})
    check_gate_up(f, f, 37, cuda::GateFunction::kGelu);
}

TEST_CASE("Every weight by itself, of a small batch", "[cuda][sm_80][gpu]") {
  constexpr std::int64_t kColumns = 512, kRows = 70;
  std::vector<float> x(kColumns * kColumns);
  for (std::size_t t = 0; t < std::size_t(kColumns); ++t) x[t * (kColumns + 1)] = 1;
  const BatchOnDevice ones(x, kColumns);
  for (const QuantFormat f : kFormats) {
    const Weights w(f, kColumns, kRows);
    const PlanesOnDevice soa(w);
    const OnDevice<float> out(kColumns * kRows);
    const Stream stream;
    const cuda::SmallBatchJob job{soa.matrix(), out.get()};
    cuda::small_batch_gemm({&job, 1}, {ones.get(), int(kColumns)}, {kRows}, stream);
    const std::vector<float> got = out.read();
    double worst = 0;
    for (std::size_t i = 0; i < std::size_t(kRows); ++i) {
      const WeightRow row(w, std::int64_t(i));
      for (std::size_t t = 0; t < std::size_t(kColumns); ++t) {
        const BatchProduct p = row.times(ones.row(t));
        worst = std::max(
            worst, fixtures::off(got[t * kRows + i], p.value, fixtures::batch_bound(p, kColumns)));
      }
    }
    INFO(info(f).name);
    CHECK(worst <= 1);
  }
}

TEST_CASE("Small batches, whatever is watched", "[cuda][sm_80][gpu][sanitize]") {
  for (const QuantFormat f : kFormats) {
    const std::int64_t block = info(f).block_elements;
    check({f, is_k(f) ? 768 : 352 / block * block, 70}, {2, 33});
    check({f, is_k(f) ? 512 : 416 / block * block, 70, {64, 2}}, {19, 65});
  }
  check_gate_up(QuantFormat::kQ4_K, QuantFormat::kQ4_K, 9);
}
