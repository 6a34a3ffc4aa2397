#include "engine/kernels/cuda/matvec/chosen_experts.cuh"
#include "engine/kernels/cuda/matvec/experts_down.cuh"
#include "engine/kernels/cuda/matvec/gate_up.cuh"
#include "engine/kernels/cuda/matvec/router.cuh"
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
using fixtures::Product;
using fixtures::Weights;

namespace {

std::vector<Weights> stack(QuantFormat f, std::int64_t columns, std::int64_t rows, unsigned count) {
  std::vector<Weights> all;
  for (unsigned i = 0; i < count; ++i) all.emplace_back(f, columns, rows, 10 * i + 1);
  return all;
}

const std::vector<int> kIds = {5, 0, 3};
const std::vector<float> kWeights = {0.5f, 0.375f, -0.125f};

struct ChosenOnDevice {
  OnDevice<int> ids{kIds};
  OnDevice<float> weights{kWeights};
  cuda::ChosenExperts get() const { return {ids.get(), weights.get(), int(kIds.size())}; }
};

// Biases of six experts, of which some are past the bounds of clamped SwiGLU.
std::vector<float> biases(std::int64_t rows, unsigned seed) {
  return normal_values(std::size_t(6 * rows), seed, 5.0f);
}

void check_experts_gate_up(QuantFormat f, QuantFormat up_format, bool biased = false,
                           cuda::GateFunction function = cuda::GateFunction::kSilu) {
  constexpr std::int64_t kColumns = 512, kRows = 96;
  const std::vector<Weights> gates = stack(f, kColumns, kRows, 6);
  const std::vector<Weights> ups = stack(up_format, kColumns, kRows, 6);
  const PlanesOnDevice gate(gates), up(ups);
  const InputOnDevice x(normal_values(kColumns, 3));
  const ChosenOnDevice chosen;
  const OnDevice<float> floats(kRows * kIds.size());
  const fixtures::RoundedOnDevice quantized(floats.size());
  const std::vector<float> gate_bias = biases(kRows, 8), up_bias = biases(kRows, 9);
  const OnDevice<float> gate_there(gate_bias), up_there(up_bias);
  const Stream stream;
  cuda::experts_gate_up({gate.matrix(), gate.stride(), biased ? gate_there.get() : nullptr},
                        {up.matrix(), up.stride(), biased ? up_there.get() : nullptr}, chosen.get(),
                        x.get(), {quantized.get(), floats.get()}, stream, cuda::Start::kEarly,
                        function);
  const std::vector<float> got = floats.read();
  double worst = 0;
  for (std::size_t e = 0; e < kIds.size(); ++e)
    for (std::int64_t i = 0; i < kRows; ++i) {
      const auto id = std::size_t(kIds[e]), at = id * kRows + std::size_t(i);
      Product g = fixtures::product(gates[id], i, x), u = fixtures::product(ups[id], i, x);
      if (biased) g = fixtures::plus(g, gate_bias[at]), u = fixtures::plus(u, up_bias[at]);
      const double allowed =
          fixtures::gate_times_bound(g.value, u.value, fixtures::bound(g, f, kColumns),
                                     fixtures::bound(u, up_format, kColumns), function);
      worst = std::max(worst,
                       fixtures::off(got[e * kRows + std::size_t(i)],
                                     fixtures::gate_times_up(g.value, u.value, function), allowed));
    }
  INFO(info(f).name);
  CHECK(worst <= 1);
  const fixtures::RoundedValues expected = fixtures::rounded_on_cpu(got), there = quantized.read();
  CHECK((there.q == expected.q && there.scale == expected.scale && there.sum16 == expected.sum16));
}

void check_experts_down(QuantFormat f, std::int64_t columns, std::int64_t rows,
                        bool biased = false) {
  const std::vector<Weights> all = stack(f, columns, rows, 6);
  const PlanesOnDevice down(all);
  const std::size_t n = std::size_t(columns);
  const InputOnDevice x(normal_values(n * kIds.size(), 3));
  const ChosenOnDevice chosen;
  const std::vector<float> before = normal_values(std::size_t(rows), 6);
  const OnDevice<float> hidden(before);
  const std::vector<float> bias = biases(rows, 8);
  const OnDevice<float> bias_there(bias);
  const Stream stream;
  cuda::experts_down({down.matrix(), down.stride(), biased ? bias_there.get() : nullptr},
                     chosen.get(), x.get(), {hidden.get(), hidden.get()}, stream,
                     cuda::Start::kEarly);
  const std::vector<float> got = hidden.read();
  double worst = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    Product sum{double(before[std::size_t(i)]), std::abs(double(before[std::size_t(i)]))};
    for (std::size_t e = 0; e < kIds.size(); ++e) {
      const auto id = std::size_t(kIds[e]);
      Product p = fixtures::product(all[id], i, [&](std::size_t j) {
        const std::size_t at = e * n + j;
        return fixtures::needs_floats(f) ? double(x.x[at]) : x.quantized.value(at);
      });
      if (biased) p = fixtures::plus(p, bias[id * std::size_t(rows) + std::size_t(i)]);
      sum.value += double(kWeights[e]) * p.value;
      sum.terms += std::abs(double(kWeights[e])) * p.terms;
    }
    // A lane adds the experts' parts one after the other: two roundings for each, and one for the
    // product of a weight and a bias.
    const double allowed =
        (fixtures::roundings(f, columns) + 2 * double(kIds.size()) + 1) * 0x1p-24 * sum.terms;
    worst = std::max(worst, fixtures::off(got[std::size_t(i)], sum.value, allowed));
  }
  INFO(fixtures::named(f, columns, rows));
  CHECK(worst <= 1);
}

}  // namespace

TEST_CASE("Gate and up of the experts that were chosen", "[cuda][gpu][formats]") {
  for (const QuantFormat f : fixtures::kAllFormats) check_experts_gate_up(f, f);
  check_experts_gate_up(QuantFormat::kQ4_K, QuantFormat::kQ5_K);
}

TEST_CASE("Down of the experts that were chosen, summed by their weights", "[cuda][gpu][formats]") {
  for (const QuantFormat f : fixtures::kAllFormats) {
    check_experts_down(f, 768, 257);
    check_experts_down(f, 2560, 31);
  }
}

TEST_CASE("Experts with biases and clamped SwiGLU", "[cuda][gpu][traits]") {
  using enum QuantFormat;
  for (const QuantFormat f : {kMXFP4, kQ8_0, kF16, kQ4_K}) {
    check_experts_gate_up(f, f, true, cuda::GateFunction::kClampedSwiglu);
    check_experts_gate_up(f, f, true);
    check_experts_down(f, 768, 257, true);
  }
  check_experts_gate_up(kQ4_K, kQ6_K, true, cuda::GateFunction::kClampedSwiglu);
  check_experts_down(kMXFP4, 2880, 2880, true);  // gpt-oss: no multiple of 256
}

namespace {

void check_route(QuantFormat f, std::int64_t experts, int used, bool normalised,
                 bool biased = false) {
  constexpr std::int64_t kColumns = 2048;
  Weights w(f, kColumns, experts, 3);
  // Equals: the lower index goes first.
  if (experts > 4)
    std::copy_n(w.blocks.begin(), w.row_bytes(),
                w.blocks.begin() + std::ptrdiff_t(4 * w.row_bytes()));
  const PlanesOnDevice soa(w);
  const std::vector<float> x = normal_values(kColumns, 9, 4.0f);
  const OnDevice<float> x_there(x), logits(static_cast<std::size_t>(experts));
  const OnDevice<float> weights(static_cast<std::size_t>(used));
  const OnDevice<int> ids(static_cast<std::size_t>(used));
  const OnDevice<unsigned> arrivals(std::vector<unsigned>{0});
  const std::vector<float> bias = normal_values(std::size_t(experts), 4, 3.0f);
  const OnDevice<float> bias_there(bias);
  const Stream stream;
  for (int again = 0; again < 3; ++again)
    cuda::route({soa.matrix(), normalised, logits.get(), arrivals.get(),
                 biased ? bias_there.get() : nullptr},
                x_there.get(), {ids.get(), weights.get(), used}, stream, cuda::Start::kEarly);
  stream.wait();
  const std::vector<float> got = logits.read();
  double worst = 0;
  for (std::int64_t i = 0; i < experts; ++i) {
    Product p = fixtures::product(w, i, [&](std::size_t j) { return double(x[j]); });
    if (biased) p = fixtures::plus(p, bias[std::size_t(i)]);
    worst = std::max(worst,
                     fixtures::off(got[std::size_t(i)], p.value, fixtures::bound(p, f, kColumns)));
  }
  INFO(info(f).name << ", " << experts << " experts, " << used << " used");
  CHECK(worst <= 1);
  CHECK(arrivals.read()[0] == 0);
  const std::vector<ref::ChosenExpert> expected =
      ref::choose_experts(got, used, {.normalised = normalised});
  const std::vector<int> got_ids = ids.read();
  const std::vector<float> got_weights = weights.read();
  // expf is off by 2 units in the last place, of an argument rounded to 2^-24 of the largest
  // difference of logits, on both sides of a quotient; a lane sums up to 32 and a warp 5 times.
  double range = 0;
  for (const float a : got) range = std::max(range, 2 * std::abs(double(a)));
  const double allowed = (2 * (2 + range) + 32 + 5 + used + 2) * 0x1p-23;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(got_ids[i] == expected[i].expert);
    CHECK(std::abs(double(got_weights[i]) - double(expected[i].weight)) <=
          allowed * double(expected[i].weight) + 0x1p-149);
  }
}

}  // namespace

TEST_CASE("The router chooses as the scalar reference does", "[cuda][gpu]") {
  using enum QuantFormat;
  for (const bool normalised : {false, true}) {
    check_route(kF32, 128, 8, normalised);
    check_route(kF16, 64, 6, normalised);
    check_route(kBF16, 8, 2, normalised);
    check_route(kF32, 3, 3, normalised);
    check_route(kF32, 1024, 10, normalised);
    check_route(kF32, 32, 4, normalised, true);
    check_route(kBF16, 128, 4, normalised, true);
  }
}
