#include "engine/kernels/cuda/matvec/matvec.cuh"

#include "engine/kernels/cuda/activations/quantize_activations.cuh"
#include "engine/kernels/cuda/matvec/gate_up.cuh"
#include "engine/kernels/cuda/matvec/mlp_up.cuh"
#include "engine/kernels/ref/ops.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/kernels/gates.cuh"
#include "tests/cuda/kernels/products.cuh"
#include "tests/engine/random_values.hpp"

using namespace rigcast;
using engine::Stream;
namespace cuda = engine::cuda;
namespace ref = engine::ref;
using engine::fixtures::normal_values;
using fixtures::InputOnDevice;
using fixtures::OnDevice;
using fixtures::PlanesOnDevice;
using fixtures::Weights;

namespace {

void check_product(QuantFormat f, std::int64_t columns, std::int64_t rows) {
  const Stream stream;
  const Weights w(f, columns, rows, unsigned(columns + rows));
  const PlanesOnDevice soa(w);
  const InputOnDevice x(normal_values(std::size_t(columns), 2));
  const OnDevice<float> out(static_cast<std::size_t>(rows));
  const cuda::MatvecJob job{soa.matrix(), out.get()};
  cuda::matvec(std::span(&job, 1), x.get(), stream, cuda::Start::kAfter);
  const std::vector<float> got = out.read();
  double worst = 0;
  // Of many rows a sample, with the first and last.
  const std::int64_t by = rows > 1000 ? 97 : 1;
  for (std::int64_t i = 0; i < rows; i = i + by < rows || i == rows - 1 ? i + by : rows - 1) {
    const fixtures::Product p = fixtures::product(w, i, x);
    worst = std::max(worst,
                     fixtures::off(got[std::size_t(i)], p.value, fixtures::bound(p, f, columns)));
  }
  INFO(fixtures::named(f, columns, rows));
  CHECK(worst <= 1);
}

}  // namespace

TEST_CASE("Products of every format are those of integers in double", "[cuda][gpu][formats]") {
  for (const QuantFormat f : fixtures::kAllFormats) {
    if (const std::int64_t block = info(f).block_elements; block < 256)
      for (const std::int64_t columns : {32, 96, 288, 896})
        for (const std::int64_t rows : {1, 3, 31, 33})
          check_product(f, block == 64 ? 2 * columns : columns, rows);
    for (const std::int64_t rows : {1, 3, 31, 33, 257}) check_product(f, 768, rows);
    check_product(f, 4096, 257);
    check_product(f, 14336, 33);
    check_product(f, 1280, 6401);  // enough rows for four a warp
  }
}

TEST_CASE("Products of rows that are no multiple of 256, as gpt-oss has them", "[cuda][gpu]") {
  using enum QuantFormat;
  for (const QuantFormat f : {kQ8_0, kF16, kBF16, kMXFP4, kQ4_0}) {
    check_product(f, 2880, 5120);  // few rows
    check_product(f, 2880, 6401);  // many
  }
}

TEST_CASE("Products of as many rows as five thread blocks a multiprocessor have",
          "[cuda][gpu][formats]") {
  for (const QuantFormat f : fixtures::kAllFormats) check_product(f, 1280, 5119);
}

TEST_CASE("Three products in one launch, of one format and of several", "[cuda][gpu]") {
  using enum QuantFormat;
  const Stream stream;
  const InputOnDevice x(normal_values(1536, 5));
  const QuantFormat mixes[][3] = {
      {kQ4_K, kQ4_K, kQ4_K},    {kQ4_K, kQ4_K, kQ6_K},    {kQ8_0, kF16, kF32},
      {kQ2_K, kIQ4_XS, kMXFP4}, {kQ5_K, kQ5_1, kQ4_1},    {kQ5_0, kQ4_0, kBF16},
      {kIQ2_XXS, kQ2_K, kQ4_K}, {kIQ3_S, kNVFP4, kIQ1_M}, {kTQ1_0, kTQ2_0, kIQ2_S}};
  for (const auto& mix : mixes)
    for (const std::int64_t rows : {257, 5000, 6336}) {
      std::vector<Weights> w;
      for (unsigned i = 0; i < 3; ++i) w.emplace_back(mix[i], 1536, i == 0 ? rows : 33 + i, i + 7);
      const PlanesOnDevice soa[] = {PlanesOnDevice(w[0]), PlanesOnDevice(w[1]),
                                    PlanesOnDevice(w[2])};
      const std::vector<float> bias = normal_values(std::size_t(rows), 8);
      const OnDevice<float> bias_there(bias), q(std::size_t(rows) + 1), k(35), v(bias);
      const cuda::MatvecJob jobs[] = {{soa[0].matrix(), q.get(), bias_there.get()},
                                      {soa[1].matrix(), k.get()},
                                      {soa[2].matrix(), v.get(), bias_there.get(), v.get()}};
      cuda::matvec(jobs, x.get(), stream, cuda::Start::kEarly);
      const std::vector<float> got[] = {q.read(), k.read(), v.read()};
      CHECK(std::isnan(got[0].back()));  // nothing past the end was written
      CHECK(std::isnan(got[1].back()));
      CHECK(got[2][35] == bias[35]);
      for (std::size_t j = 0; j < 3; ++j)
        for (std::int64_t i = 0; i < std::min<std::int64_t>(w[j].rows, 200); ++i) {
          fixtures::Product p = fixtures::product(w[j], i, x);
          const double added = double(bias[std::size_t(i)]) * (j == 0 ? 1 : j == 1 ? 0 : 2);
          p.value += added, p.terms += std::abs(added);
          if (fixtures::off(got[j][std::size_t(i)], p.value, fixtures::bound(p, mix[j], 1536)) > 1)
            FAIL("job " << j << " " << fixtures::named(mix[j], 1536, w[j].rows) << " row " << i
                        << ": " << got[j][std::size_t(i)] << " for " << p.value);
        }
    }
}

namespace {

void check_gate_up(QuantFormat gate_format, QuantFormat up_format, std::int64_t columns,
                   std::int64_t rows, cuda::GateFunction function = cuda::GateFunction::kSilu) {
  const Stream stream;
  const Weights gate(gate_format, columns, rows, 1), up(up_format, columns, rows, 2);
  const PlanesOnDevice gate_planes(gate), up_planes(up);
  const InputOnDevice x(normal_values(std::size_t(columns), 3));
  const bool rounds = rows % 32 == 0;
  const OnDevice<float> floats(static_cast<std::size_t>(rows));
  const fixtures::RoundedOnDevice quantized(static_cast<std::size_t>(rows));
  cuda::gate_up(gate_planes.matrix(), up_planes.matrix(), x.get(),
                {rounds ? quantized.get() : cuda::QuantizedActivations{}, floats.get()}, stream,
                cuda::Start::kEarly, function);
  const std::vector<float> got = floats.read();
  double worst = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const fixtures::Product g = fixtures::product(gate, i, x), u = fixtures::product(up, i, x);
    const double allowed =
        fixtures::gate_times_bound(g.value, u.value, fixtures::bound(g, gate_format, columns),
                                   fixtures::bound(u, up_format, columns), function);
    worst = std::max(worst,
                     fixtures::off(got[std::size_t(i)],
                                   fixtures::gate_times_up(g.value, u.value, function), allowed));
  }
  INFO(fixtures::named(gate_format, columns, rows));
  CHECK(worst <= 1);
  if (!rounds) return;
  const fixtures::RoundedValues expected = fixtures::rounded_on_cpu(got), there = quantized.read();
  CHECK(there.q == expected.q);
  CHECK(there.scale == expected.scale);
  CHECK(there.sum16 == expected.sum16);
}

}  // namespace

TEST_CASE("Gate and up in one launch, rounded for down", "[cuda][gpu][formats]") {
  for (const QuantFormat f : fixtures::kAllFormats) {
    check_gate_up(f, f, 768, 33);
    check_gate_up(f, f, 4096, 96);
    check_gate_up(f, f, 256, 1024);
  }
  check_gate_up(QuantFormat::kQ4_K, QuantFormat::kQ6_K, 768, 64);
  check_gate_up(QuantFormat::kF16, QuantFormat::kQ8_0, 768, 35);
}

TEST_CASE("Gate and up with other functions between them", "[cuda][gpu][traits]") {
  using enum QuantFormat;
  for (const auto function : {cuda::GateFunction::kGelu, cuda::GateFunction::kClampedSwiglu}) {
    for (const QuantFormat f : {kF32, kF16, kQ8_0, kQ4_K}) check_gate_up(f, f, 768, 96, function);
    check_gate_up(kQ4_K, kQ6_K, 768, 64, function);
  }
}

TEST_CASE("The first matrix of an FFN without a gate, its bias and its function in one launch",
          "[cuda][gpu][traits]") {
  const Stream stream;
  const engine::Xielu numbers{1.2f, 0.7f, 0.5f, -1e-6f};
  for (const QuantFormat f : fixtures::kAllFormats)
    for (const std::int64_t rows : {33, 96, 1024})
      for (const bool is_xielu : {false, true}) {
        constexpr std::int64_t kColumns = 768;
        const Weights up(f, kColumns, rows, 1);
        const PlanesOnDevice soa(up);
        const InputOnDevice x(normal_values(kColumns, 3));
        const std::vector<float> bias = normal_values(std::size_t(rows), 4);
        const std::vector<float> times = normal_values(std::size_t(rows), 5);
        const OnDevice<float> bias_there(bias), times_there(times),
            floats(static_cast<std::size_t>(rows));
        const bool rounds = rows % 32 == 0;
        const fixtures::RoundedOnDevice quantized(static_cast<std::size_t>(rows));
        cuda::mlp_up(soa.matrix(), is_xielu ? nullptr : bias_there.get(), x.get(),
                     {rounds ? quantized.get() : cuda::QuantizedActivations{}, floats.get()},
                     {is_xielu, numbers}, stream, cuda::Start::kEarly,
                     is_xielu ? nullptr : times_there.get());
        const std::vector<float> got = floats.read();
        double worst = 0;
        for (std::int64_t i = 0; i < rows; ++i) {
          fixtures::Product p = fixtures::product(up, i, x);
          if (!is_xielu) p = fixtures::plus(p, bias[std::size_t(i)]);
          const double of_product = fixtures::bound(p, f, kColumns), size = std::abs(p.value);
          // GELU's slope is below 1.2, that of xIELU below 2.4 |x| + 0.5; both round as GELU gated.
          const double slope = is_xielu ? 2.4 * (size + of_product) + 0.5 : 1.2;
          const double want = is_xielu ? double(ref::xielu(float(p.value), numbers))
                                       : fixtures::gate_of(p.value, cuda::GateFunction::kGelu);
          const double terms = is_xielu ? 1.2 * size * size + size
                                        : std::abs(want) * (1 + 1.6 * size * (1 + size * size));
          const double by = is_xielu ? 1 : double(times[std::size_t(i)]);
          const double allowed = slope * (of_product + size * 0x1p-24) + 11 * 0x1p-24 * terms;
          worst = std::max(worst,
                           fixtures::off(got[std::size_t(i)], want * by, allowed * std::abs(by)));
        }
        INFO(fixtures::named(f, kColumns, rows) << (is_xielu ? ", xIELU" : ", GELU"));
        CHECK(worst <= 1);
        if (!rounds) continue;
        const fixtures::RoundedValues expected = fixtures::rounded_on_cpu(got),
                                      there = quantized.read();
        CHECK(there.q == expected.q);
        CHECK(there.scale == expected.scale);
        CHECK(there.sum16 == expected.sum16);
      }
}

TEST_CASE("Kernels that start early see what the kernels before them wrote", "[cuda][gpu]") {
  // A chain whose every kernel overwrites what an earlier one reads, over and over.
  constexpr std::int64_t kWidth = 2048;
  const Weights gate(QuantFormat::kQ4_K, kWidth, kWidth, 1),
      up(QuantFormat::kQ6_K, kWidth, kWidth, 2), down(QuantFormat::kQ8_0, kWidth, kWidth, 3);
  const PlanesOnDevice g(gate), u(up), d(down);
  const std::vector<float> x = normal_values(kWidth, 4), ones(kWidth, 1.0f);
  const OnDevice<float> weight(ones);
  const Stream stream;
  const auto run = [&](cuda::Start start) {
    const OnDevice<float> hidden(x);
    const fixtures::RoundedOnDevice quantized(kWidth), inner(kWidth);
    for (int i = 0; i < 50; ++i) {
      cuda::norm_and_quantize({hidden.get(), kWidth, 1}, {weight.get(), 1e-5f}, quantized.get(),
                              nullptr, stream, start);
      cuda::gate_up(g.matrix(), u.matrix(), {quantized.get()}, {inner.get()}, stream, start);
      const cuda::MatvecJob job{d.matrix(), hidden.get(), nullptr, hidden.get()};
      cuda::matvec(std::span(&job, 1), {inner.get()}, stream, start);
    }
    stream.wait();
    return hidden.read();
  };
  const std::vector<float> expected = run(cuda::Start::kAfter);
  CHECK(std::isfinite(expected[0]));
  for (int i = 0; i < 10; ++i) CHECK((run(cuda::Start::kEarly) == expected));
}

TEST_CASE("Jobs that do not fit together are refused", "[cuda][gpu]") {
  const Stream stream;
  const cuda::DeviceMatrix narrow{nullptr, QuantFormat::kF32, 32, 1};
  const cuda::DeviceMatrix wide{nullptr, QuantFormat::kF32, 64, 1};
  const cuda::MatvecJob differ[] = {{narrow, nullptr}, {wide, nullptr}};
  CHECK_THROWS_AS(cuda::matvec(differ, {}, stream, cuda::Start::kAfter), std::invalid_argument);
  const std::vector<cuda::MatvecJob> many(4, {narrow, nullptr});
  CHECK_THROWS_AS(cuda::matvec(many, {}, stream, cuda::Start::kAfter), std::invalid_argument);
  CHECK_THROWS_AS(cuda::gate_up(narrow, wide, {}, {}, stream, cuda::Start::kAfter),
                  std::invalid_argument);
}
