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

TEST_CASE("Weights of what experts read are those of their products", "[cuda][gpu][traits]") {
  constexpr std::int64_t kColumns = 512, kRows = 96;
  const Stream stream;
  for (const QuantFormat f : {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_K}) {
    const PlanesOnDevice gate(stack(f, kColumns, kRows, 6)), up(stack(f, kColumns, kRows, 6));
    const ChosenOnDevice chosen;
    // Powers of two: no other rounding. All in one, and each by itself.
    const std::vector<float> by = {2, 2, 2};
    const OnDevice<float> weights(by);
    const auto run = [&](float times, const float* input_weights) {
      std::vector<float> values = normal_values(kColumns, 3);
      for (float& v : values) v *= times;
      const InputOnDevice x(values);
      const OnDevice<float> out(kRows * kIds.size());
      cuda::experts_gate_up({gate.matrix(), gate.stride()}, {up.matrix(), up.stride()},
                            chosen.get(), x.get(), {{}, out.get()}, stream, cuda::Start::kEarly,
                            cuda::GateFunction::kSilu, {}, input_weights);
      return out.read();
    };
    CHECK(run(1, weights.get()) == run(2, nullptr));
    CHECK(run(1, weights.get()) != run(1, nullptr));
  }
}

TEST_CASE("Down of the experts that were chosen, summed by their weights", "[cuda][gpu][formats]") {
  for (const QuantFormat f : fixtures::kAllFormats) {
    check_experts_down(f, 768, 257);
    check_experts_down(f, 2560, 31);
  }
}

namespace {

constexpr float kSharedWeight = 0.375f;

// Beside experts of 96 rows: fewer, as many, and as many as two and a half have.
void check_shared_gate_up(QuantFormat f, QuantFormat up_format, std::int64_t shared_rows,
                          bool weighted) {
  constexpr std::int64_t kColumns = 512, kRows = 96;
  const std::vector<Weights> gates = stack(f, kColumns, kRows, 6);
  const std::vector<Weights> ups = stack(up_format, kColumns, kRows, 6);
  const Weights shared_gate(f, kColumns, shared_rows, 77),
      shared_up(up_format, kColumns, shared_rows, 78);
  const PlanesOnDevice gate(gates), up(ups), shared_gate_there(shared_gate),
      shared_up_there(shared_up);
  const InputOnDevice x(normal_values(kColumns, 3));
  const ChosenOnDevice chosen;
  const std::size_t of_chosen = std::size_t(kRows) * kIds.size();
  const auto all = of_chosen + std::size_t(shared_rows);
  const OnDevice<float> floats(all), alone(of_chosen);
  const OnDevice<float> weight(std::vector<float>{kSharedWeight});
  const fixtures::RoundedOnDevice quantized(all), quantized_alone(of_chosen);
  const Stream stream;
  const cuda::SharedExpert shared{
      shared_gate_there.matrix(), shared_up_there.matrix(), {}, weighted ? weight.get() : nullptr};
  REQUIRE(cuda::joins_gate_up(shared, {gate.matrix(), gate.stride()}, {up.matrix(), up.stride()}));
  cuda::SharedExpert whole = shared;
  whole.down = shared.up;  // of an expert that exists
  cuda::experts_gate_up({gate.matrix(), gate.stride()}, {up.matrix(), up.stride()}, chosen.get(),
                        x.get(), {quantized.get(), floats.get()}, stream, cuda::Start::kEarly,
                        cuda::GateFunction::kClampedSwiglu, whole);
  cuda::experts_gate_up({gate.matrix(), gate.stride()}, {up.matrix(), up.stride()}, chosen.get(),
                        x.get(), {quantized_alone.get(), alone.get()}, stream, cuda::Start::kEarly,
                        cuda::GateFunction::kClampedSwiglu);
  const std::vector<float> got = floats.read(), without = alone.read();
  CHECK(std::equal(without.begin(), without.end(), got.begin()));
  double worst = 0;
  for (std::int64_t i = 0; i < shared_rows; ++i) {
    const Product g = fixtures::product(shared_gate, i, x), u = fixtures::product(shared_up, i, x);
    const double factor = weighted ? double(kSharedWeight) : 1;
    const double allowed = fixtures::gate_times_bound(
        g.value, u.value, fixtures::bound(g, f, kColumns), fixtures::bound(u, up_format, kColumns),
        cuda::GateFunction::kSilu);
    const double want =
        factor * fixtures::gate_times_up(g.value, u.value, cuda::GateFunction::kSilu);
    worst = std::max(worst, fixtures::off(got[of_chosen + std::size_t(i)], want,
                                          factor * allowed + 0x1p-24 * std::abs(want)));
  }
  INFO(info(f).name << ", " << shared_rows << " rows of the shared expert");
  CHECK(worst <= 1);
  const fixtures::RoundedValues expected = fixtures::rounded_on_cpu(got), there = quantized.read();
  CHECK((there.q == expected.q && there.scale == expected.scale && there.sum16 == expected.sum16));
}

// What follows the chosen experts' inputs goes through the shared down, and is added as it is.
void check_shared_down(QuantFormat f, std::int64_t columns, std::int64_t rows,
                       std::int64_t shared_columns) {
  const std::vector<Weights> all = stack(f, columns, rows, 6);
  const Weights own(f, shared_columns, rows, 79);
  const PlanesOnDevice down(all), shared(own);
  const std::size_t of_chosen = std::size_t(columns) * kIds.size();
  const std::vector<float> values = normal_values(of_chosen + std::size_t(shared_columns), 3);
  const InputOnDevice x(values);
  const ChosenOnDevice chosen;
  const OnDevice<float> both(static_cast<std::size_t>(rows)), alone(static_cast<std::size_t>(rows));
  const Stream stream;
  const cuda::DeviceMatrixStack experts{down.matrix(), down.stride()};
  cuda::experts_down(experts, chosen.get(), x.get(), {nullptr, both.get()}, stream,
                     cuda::Start::kEarly, shared.matrix());
  cuda::experts_down(experts, chosen.get(), x.get(), {nullptr, alone.get()}, stream,
                     cuda::Start::kEarly);
  const std::vector<float> got = both.read(), without = alone.read();
  double worst = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const Product p = fixtures::product(own, i, [&](std::size_t j) {
      const std::size_t at = of_chosen + j;
      return fixtures::needs_floats(f) ? double(values[at]) : x.quantized.value(at);
    });
    double terms = p.terms;  // of all that a lane adds up
    for (std::size_t e = 0; e < kIds.size(); ++e)
      terms += std::abs(double(kWeights[e])) *
               fixtures::product(all[std::size_t(kIds[e])], i, [&](std::size_t j) {
                 return double(values[e * std::size_t(columns) + j]);
               }).terms;
    const double allowed =
        2 * (fixtures::roundings(f, columns + shared_columns) + 2 * double(kIds.size()) + 1) *
        0x1p-24 * terms;
    worst = std::max(worst, fixtures::off(got[std::size_t(i)],
                                          double(without[std::size_t(i)]) + p.value, allowed));
  }
  INFO(fixtures::named(f, columns, rows) << ", " << shared_columns << " of the shared expert");
  CHECK(worst <= 1);
}

}  // namespace

TEST_CASE("A shared expert joins those that were chosen", "[cuda][gpu][traits]") {
  using enum QuantFormat;
  for (const QuantFormat f : {kQ4_K, kQ6_K, kQ8_0, kQ4_0, kQ5_0, kF16, kF32, kIQ4_XS, kMXFP4})
    for (const std::int64_t rows : {32, 96, 224}) check_shared_gate_up(f, f, rows, rows == 224);
  check_shared_gate_up(kQ4_K, kQ6_K, 192, true);
  for (const QuantFormat f : {kQ4_K, kQ6_K, kQ8_0, kF16, kIQ4_XS}) {
    check_shared_down(f, 768, 257, 768);
    check_shared_down(f, 768, 64, 2816);
    check_shared_down(f, 1536, 31, 256);
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

void check_shared_weight(const std::vector<float>& w, const std::vector<float>& x, float got) {
  double sum = 0, terms = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    sum += double(w[i]) * double(x[i]);
    terms += std::abs(double(w[i]) * double(x[i]));
  }
  // A sigmoid's slope is 1/4 at most; expf, sum and quotient are off by 4 units.
  const double allowed =
      (fixtures::roundings(QuantFormat::kF32, std::int64_t(w.size())) * terms / 4 + 4) * 0x1p-24;
  CHECK(std::abs(double(got) - 1 / (1 + std::exp(-sum))) <= allowed);
}

struct RouteCase {
  QuantFormat format;
  std::int64_t experts;
  int used;
  engine::ExpertRouting routing{};
  bool biased = false, selects_by_bias = false, shared = false;
  std::int64_t columns = 2048;  // logits are as large as their root
};

void check_route(const RouteCase& c) {
  const std::int64_t kColumns = c.columns, experts = c.experts;
  const QuantFormat f = c.format;
  const int used = c.used;
  const bool biased = c.biased;
  Weights w(f, kColumns, experts, 3);
  // Equals: the lower index goes first.
  if (experts > 4)
    std::copy_n(w.blocks.begin(), w.row_bytes(),
                w.blocks.begin() + std::ptrdiff_t(4 * w.row_bytes()));
  const PlanesOnDevice soa(w);
  const std::vector<float> x = normal_values(std::size_t(kColumns), 9, 4.0f);
  const OnDevice<float> x_there(x), logits(static_cast<std::size_t>(experts));
  const OnDevice<float> weights(static_cast<std::size_t>(used));
  const OnDevice<int> ids(static_cast<std::size_t>(used));
  const OnDevice<unsigned> arrivals(std::vector<unsigned>{0});
  const std::vector<float> bias = normal_values(std::size_t(experts), 4, 3.0f);
  const OnDevice<float> bias_there(bias);
  const std::vector<float> selection = normal_values(std::size_t(experts), 5, 0.3f);
  const OnDevice<float> selection_there(selection);
  const std::vector<float> shared_row = normal_values(std::size_t(kColumns), 6, 0.01f);
  const OnDevice<float> shared_there(shared_row), shared_weight(1);
  const Stream stream;
  for (int again = 0; again < 3; ++again)
    cuda::route({soa.matrix(),
                 {c.routing, c.selects_by_bias ? selection_there.get() : nullptr},
                 logits.get(),
                 arrivals.get(),
                 biased ? bias_there.get() : nullptr,
                 {c.shared ? shared_there.get() : nullptr, shared_weight.get()}},
                x_there.get(), {ids.get(), weights.get(), used}, stream, cuda::Start::kEarly);
  stream.wait();
  if (c.shared) check_shared_weight(shared_row, x, shared_weight.read()[0]);
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
  const std::vector<ref::ChosenExpert> expected = ref::choose_experts(
      got, used, c.routing, c.selects_by_bias ? std::span(selection) : std::span<const float>());
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
    const engine::ExpertRouting routing{.normalised = normalised};
    check_route({kF32, 128, 8, routing});
    check_route({kF16, 64, 6, routing});
    check_route({kBF16, 8, 2, routing});
    check_route({kF32, 3, 3, routing});
    check_route({kF32, 1024, 10, routing});
    check_route({kF32, 32, 4, routing, true});
    check_route({kBF16, 128, 4, routing, true});
    check_route({kF32, 60, 4, routing, false, false, true});
  }
}

TEST_CASE("The router chooses by sigmoids, groups and biases", "[cuda][gpu][traits]") {
  using enum QuantFormat;
  // Logits so small that no sigmoid rounds to 1.
  constexpr std::int64_t kColumns = 96;
  const engine::ExpertRouting sigmoid{.sigmoid = true, .scale = 2.5f};
  const engine::ExpertRouting plain{.sigmoid = true, .normalised = false};
  check_route({kF32, 128, 8, sigmoid, false, false, false, kColumns});
  check_route({kF32, 128, 8, plain, false, true, true, kColumns});
  check_route({kF32, 384, 8, sigmoid, false, true, false, kColumns});
  check_route({kBF16, 64, 6, {.scale = 16}, false, true, true, kColumns});
  const auto grouped = [](engine::ExpertRouting r, int groups, int used) {
    r.groups = groups;
    r.groups_used = used;
    return r;
  };
  check_route({kF32, 256, 8, grouped(sigmoid, 8, 4), false, true, false, kColumns});
  check_route({kF32, 160, 6, grouped({.normalised = false, .scale = 16}, 8, 3), false, false, false,
               kColumns});
  check_route({kF32, 64, 4, grouped(sigmoid, 32, 2), false, true, true, kColumns});
  check_route({kF32, 64, 4, grouped(sigmoid, 2, 1), false, false, false, kColumns});
}
