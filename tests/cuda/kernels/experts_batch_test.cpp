#include "engine/kernels/cuda/batch/experts_batch.cuh"

#include <algorithm>

#include "engine/kernels/cuda/activations/tile_order.hpp"
#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"
#include "engine/kernels/cuda/hopper/tiled_experts.cuh"
#include "engine/kernels/cuda/hopper/tiled_gemm.cuh"
#include "engine/kernels/ref/half.hpp"
#include "engine/kernels/ref/ops.hpp"
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
using fixtures::Product;
using fixtures::WeightRow;
using fixtures::Weights;

namespace {

// Memory for all buffers of a batch.
struct GroupsOnDevice {
  int tokens, used, experts, group_tokens;
  OnDevice<int> ids{choices()};
  OnDevice<float> weights{choices()};
  OnDevice<int> counts{std::size_t(experts)}, order{choices()}, group_count{1};
  OnDevice<cuda::ExpertGroup> groups{
      std::size_t(cuda::most_groups(tokens, used, experts, group_tokens))};

  std::size_t choices() const { return std::size_t(tokens * used); }
  cuda::ExpertGroups get() const {
    return {{ids.get(), weights.get(), used},
            counts.get(),
            order.get(),
            groups.get(),
            group_count.get(),
            tokens,
            experts,
            group_tokens};
  }
};

// The groups that the host computes from the choices.
struct Sorted {
  std::vector<int> order;
  std::vector<std::vector<int>> of_expert;

  Sorted(const std::vector<int>& ids, int experts) : of_expert(std::size_t(experts)) {
    for (std::size_t i = 0; i < ids.size(); ++i) of_expert[std::size_t(ids[i])].push_back(int(i));
    for (const auto& choices : of_expert) order.insert(order.end(), choices.begin(), choices.end());
  }
};

void check_groups(const GroupsOnDevice& g) {
  const std::vector<int> ids = g.ids.read();
  const Sorted expected(ids, g.experts);
  CHECK(g.order.read() == expected.order);
  const auto groups = g.groups.read();
  std::size_t next = 0;
  int at = 0;
  bool right = true;
  for (int e = 0; e < g.experts; ++e) {
    const int count = int(expected.of_expert[std::size_t(e)].size());
    for (int first = 0; first < count; first += g.group_tokens, ++next) {
      REQUIRE(next < groups.size());
      right &= groups[next].expert == e && groups[next].first == at + first &&
               groups[next].count == std::min(g.group_tokens, count - first);
    }
    at += count;
  }
  CHECK(right);
  CHECK(g.group_count.read()[0] == int(next));
}

struct RouteCase {
  QuantFormat format;
  int tokens, experts, used, group_tokens;
  bool normalised;
  std::int64_t columns = 512;
  bool biased = false;
  bool sigmoid = false, selects_by_bias = false;
  int groups = 1, groups_used = 1;

  engine::ExpertRouting routing() const {
    return {.sigmoid = sigmoid,
            .normalised = normalised,
            .scale = sigmoid ? 2.5f : 1.0f,
            .groups = groups,
            .groups_used = groups_used};
  }
};

void check_route(const RouteCase& c) {
  const Weights w(c.format, c.columns, c.experts, 3);
  const PlanesOnDevice soa(w);
  const std::size_t n = std::size_t(c.columns), experts = std::size_t(c.experts);
  const std::size_t used = std::size_t(c.used);
  const std::vector<float> x = normal_values(std::size_t(c.tokens) * n, 9, 4.0f);
  const OnDevice<float> x_there(x), logits(std::size_t(c.tokens) * experts);
  const GroupsOnDevice g{c.tokens, c.used, c.experts, c.group_tokens};
  const Stream stream;
  const std::vector<float> bias = normal_values(experts, 4, 3.0f);
  const OnDevice<float> bias_there(bias);
  const std::vector<float> selection = normal_values(experts, 5, 0.3f);
  const OnDevice<float> selection_there(selection);
  for (int again = 0; again < 2; ++again)
    cuda::route_batch({soa.matrix(),
                       {c.routing(), c.selects_by_bias ? selection_there.get() : nullptr},
                       logits.get(),
                       nullptr,
                       c.biased ? bias_there.get() : nullptr},
                      x_there.get(), g.get(), stream);
  const std::vector<float> got = logits.read(), weights = g.weights.read();
  const std::vector<int> ids = g.ids.read();
  double worst = 0, worst_weight = 0;
  bool same_ids = true;
  for (std::size_t t = 0; t < std::size_t(c.tokens); ++t) {
    const std::span row(&got[t * experts], experts);
    double range = 0;
    for (std::size_t e = 0; e < experts; ++e) {
      Product p = fixtures::product(w, std::int64_t(e),
                                    [&](std::size_t j) { return double(x[t * n + j]); });
      if (c.biased) p = fixtures::plus(p, bias[e]);
      worst =
          std::max(worst, fixtures::off(row[e], p.value, fixtures::bound(p, c.format, c.columns)));
      range = std::max(range, 2 * std::abs(double(row[e])));
    }
    // As for one token: expf is off by 2 units, of an argument that is rounded, on both sides of a
    // quotient; a lane sums up to 32 and a warp 5 times.
    const double allowed = (2 * (2 + range) + 32 + 5 + c.used + 2) * 0x1p-23;
    const auto expected =
        ref::choose_experts(row, c.used, c.routing(),
                            c.selects_by_bias ? std::span(selection) : std::span<const float>());
    for (std::size_t i = 0; i < used; ++i) {
      same_ids &= ids[t * used + i] == expected[i].expert;
      const double weight = double(expected[i].weight);
      worst_weight = std::max(
          worst_weight, fixtures::off(weights[t * used + i], weight, allowed * weight + 0x1p-149));
    }
  }
  INFO(info(c.format).name << ", " << c.tokens << " tokens, " << c.experts << " experts");
  CHECK(worst <= 1);
  CHECK(same_ids);
  CHECK(worst_weight <= 1);
  check_groups(g);
}

}  // namespace

TEST_CASE("A batch is routed as its tokens are, and sorted by expert", "[cuda][gpu]") {
  using enum QuantFormat;
  check_route({kF32, 150, 128, 8, 16, true});
  check_route({kF16, 77, 64, 6, 32, false});
  check_route({kBF16, 200, 8, 2, 64, true, 2048});
  check_route({kF32, 5, 3, 3, 16, false, 96});
  check_route({kF32, 1, 1024, 10, 16, true});
  check_route({kF32, 77, 32, 4, 16, true, 512, true});
}

TEST_CASE("A batch is routed by sigmoids, groups and biases of the choice", "[cuda][gpu][traits]") {
  using enum QuantFormat;
  check_route({kF32, 77, 32, 4, 16, true, 96, false, true});
  check_route({kF32, 77, 128, 8, 16, true, 96, false, true, true});
  check_route({kBF16, 77, 64, 6, 16, false, 96, false, false, true});
  check_route({kF32, 150, 256, 8, 16, true, 96, false, true, true, 8, 4});
  check_route({kF16, 77, 160, 6, 16, false, 96, false, false, false, 8, 3});
  check_route({kF32, 5, 64, 4, 16, true, 96, false, true, true, 32, 2});
  check_route({kF32, 40, 1024, 12, 16, true, 96, false, true, true});
}

TEST_CASE("Inputs of a token's only expert are weighted", "[cuda][gpu][traits]") {
  constexpr int kTokens = 5, kWidth = 260;
  GroupsOnDevice there{kTokens, 1, 4, 16};
  const std::vector<float> x = normal_values(kTokens * kWidth, 4, 30.0f),
                           weights = normal_values(kTokens, 5);
  const OnDevice<float> rows(x), own(weights);
  const OnDevice<std::uint16_t> halves(x.size());
  cuda::ExpertGroups groups = there.get();
  groups.chosen.weights = own.get();
  const Stream stream;
  cuda::weigh_inputs(groups, rows.get(), kWidth, reinterpret_cast<__half*>(halves.get()), stream);
  const std::vector<float> got = rows.read();
  const std::vector<std::uint16_t> narrow = halves.read();
  std::size_t differ = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float want = x[i] * weights[i / kWidth];
    differ += got[i] != want || narrow[i] != ref::float_to_half(want);
  }
  CHECK(differ == 0);
  // Sums without weights.
  const OnDevice<float> sum(static_cast<std::size_t>(kTokens * kWidth));
  groups.chosen.weights = nullptr;
  cuda::add_experts(groups, rows.get(), {sum.get(), kWidth, false}, stream);
  CHECK(sum.read() == got);
}

TEST_CASE("Weights of a shared expert are sigmoids of products", "[cuda][gpu][traits]") {
  for (const std::size_t columns : {std::size_t(96), std::size_t(2048)}) {
    constexpr std::size_t kTokens = 9;
    const std::vector<float> w = normal_values(columns, 3, 0.1f),
                             x = normal_values(kTokens * columns, 4);
    const OnDevice<float> w_there(w), x_there(x), weights(kTokens);
    const Stream stream;
    cuda::weigh_shared_expert({w_there.get(), weights.get()}, x_there.get(), int(columns),
                              int(kTokens), stream);
    const std::vector<float> got = weights.read();
    for (std::size_t t = 0; t < kTokens; ++t) {
      double sum = 0, terms = 0;
      for (std::size_t i = 0; i < columns; ++i) {
        sum += double(w[i]) * double(x[t * columns + i]);
        terms += std::abs(double(w[i]) * double(x[t * columns + i]));
      }
      // A lane adds 1/32 of the products and a warp 5 times; a sigmoid's slope is 1/4 at most, and
      // expf, sum and quotient are off by 4 units.
      const double allowed = ((double(columns) / 32 + 5) * terms / 4 + 4) * 0x1p-24;
      CHECK(std::abs(double(got[t]) - 1 / (1 + std::exp(-sum))) <= allowed);
    }
  }
}

namespace {

constexpr int kExperts = 9, kUsed = 3;

// Expert 0 has no token, expert 1 the last one, expert 2 all; the others have some.
std::vector<float> chosen_logits(int tokens) {
  std::vector<float> x = normal_values(std::size_t(tokens) * 32, 21);
  for (std::size_t t = 0; t < std::size_t(tokens); ++t) {
    x[t * 32] = -100;
    x[t * 32 + 1] = t + 1 == std::size_t(tokens) ? 50.0f : -50.0f;
    x[t * 32 + 2] = 100;
  }
  return x;
}

// Routed by a matrix that passes the logits on.
void route_as_chosen(const GroupsOnDevice& g, const Stream& stream) {
  Weights unit(QuantFormat::kF32, 32, kExperts);
  for (std::size_t i = 0; i < 32 * kExperts; ++i) {
    const float value = i % 33 == 0 ? 1.0f : 0.0f;
    std::memcpy(&unit.blocks[4 * i], &value, 4);
  }
  const PlanesOnDevice soa(unit);
  const OnDevice<float> x(chosen_logits(g.tokens)), logits(std::size_t(g.tokens) * kExperts);
  cuda::route_batch({soa.matrix(), {}, logits.get()}, x.get(), g.get(), stream);
  stream.wait();
}

std::vector<Weights> stack(QuantFormat f, std::int64_t columns, std::int64_t rows,
                           unsigned seed = 1) {
  std::vector<Weights> all;
  for (unsigned i = 0; i < unsigned(kExperts); ++i)
    all.emplace_back(f, columns, rows, 10 * i + seed);
  return all;
}

// Biases of experts on the GPU: with clamped SwiGLU, as gpt-oss has them, or none with SiLU.
struct BiasesOnDevice {
  bool there;
  std::vector<float> values;
  OnDevice<float> on_device{values};

  BiasesOnDevice(bool given, std::int64_t rows_, unsigned seed)
      : there(given), values(normal_values(std::size_t(kExperts * rows_), seed, 5.0f)) {}
  const float* get() const { return there ? on_device.get() : nullptr; }
  BatchProduct plus(const BatchProduct& p, std::size_t at) const {
    return there ? fixtures::plus(p, values[at]) : p;
  }
};

cuda::GateFunction function_of(bool biased) {
  return biased ? cuda::GateFunction::kClampedSwiglu : cuda::GateFunction::kSilu;
}

void check_gate_up(QuantFormat f, const GroupsOnDevice& g, bool biased = false) {
  constexpr std::int64_t kColumns = 512, kRows = 162;
  const BiasesOnDevice gate_bias(biased, kRows, 7), up_bias(biased, kRows, 8);
  const auto gates = stack(f, kColumns, kRows), ups = stack(f, kColumns, kRows, 5);
  const PlanesOnDevice gate(gates), up(ups);
  const BatchOnDevice x(normal_values(std::size_t(g.tokens) * kColumns, 3), kColumns);
  const OnDevice<float> gate_out(g.choices() * kRows);
  const OnDevice<std::uint16_t> out(g.choices() * kRows);
  const Stream stream;
  cuda::grouped_gate_up({gate.matrix(), gate.stride(), gate_bias.get()},
                        {up.matrix(), up.stride(), up_bias.get()}, g.get(), x.get(), gate_out.get(),
                        reinterpret_cast<__half*>(out.get()), stream, function_of(biased));
  std::vector<fixtures::GatedUp> expected(g.choices() * kRows);
  const Sorted sorted(g.ids.read(), kExperts);
  for (std::size_t e = 0; e < std::size_t(kExperts); ++e)
    for (std::size_t i = 0; i < std::size_t(kRows) && !sorted.of_expert[e].empty(); ++i) {
      const WeightRow gate_row(gates[e], std::int64_t(i)), up_row(ups[e], std::int64_t(i));
      for (const int choice : sorted.of_expert[e]) {
        const double* const row = x.row(std::size_t(choice / kUsed));
        const std::size_t at = e * kRows + i;
        expected[std::size_t(choice) * kRows + i] =
            fixtures::gated_up(gate_bias.plus(gate_row.times(row), at),
                               up_bias.plus(up_row.times(row), at), kColumns, function_of(biased));
      }
    }
  INFO(info(f).name);
  CHECK(fixtures::worst_of(out.read(), expected) <= 1);
}

void check_down(QuantFormat f, const GroupsOnDevice& g, bool biased = false) {
  constexpr std::int64_t kColumns = 768, kRows = 132;
  const BiasesOnDevice bias(biased, kRows, 7);
  const auto all = stack(f, kColumns, kRows);
  const PlanesOnDevice down(all);
  const BatchOnDevice x(normal_values(g.choices() * kColumns, 3), kColumns);
  const OnDevice<float> rows(g.choices() * kRows);
  const std::vector<float> before = normal_values(std::size_t(g.tokens) * kRows, 6);
  const OnDevice<float> hidden(before);
  const Stream stream;
  cuda::grouped_down({down.matrix(), down.stride(), bias.get()}, g.get(), x.get(), rows.get(),
                     stream);
  cuda::add_experts(g.get(), rows.get(), {hidden.get(), int(kRows)}, stream);
  const std::vector<float> got = hidden.read(), weights = g.weights.read();
  const Sorted sorted(g.ids.read(), kExperts);
  std::vector<BatchProduct> expected(before.size());
  for (std::size_t i = 0; i < before.size(); ++i)
    expected[i].value = double(before[i]), expected[i].terms = std::abs(double(before[i]));
  for (std::size_t e = 0; e < std::size_t(kExperts); ++e)
    for (std::size_t i = 0; i < std::size_t(kRows) && !sorted.of_expert[e].empty(); ++i) {
      const WeightRow row(all[e], std::int64_t(i));
      for (const int choice : sorted.of_expert[e]) {
        const BatchProduct p = bias.plus(row.times(x.row(std::size_t(choice))), e * kRows + i);
        BatchProduct& sum = expected[std::size_t(choice / kUsed) * kRows + i];
        const double weight = double(weights[std::size_t(choice)]);
        sum.value += weight * p.value, sum.terms += std::abs(weight) * p.terms;
        sum.inputs += std::abs(weight) * p.inputs;
      }
    }
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    // One rounding more for each expert that is added.
    const double allowed =
        fixtures::batch_bound(expected[i], kColumns) + kUsed * 0x1p-24 * expected[i].terms;
    worst = std::max(worst, fixtures::off(got[i], expected[i].value, allowed));
  }
  INFO(info(f).name);
  CHECK(worst <= 1);
}

}  // namespace

namespace {

std::size_t tiled_values(const GroupsOnDevice& g, std::int64_t columns) {
  return std::size_t(cuda::tiled_group_values(g.get(), columns));
}

// Calls call(choice, index) for a column of every choice, with its index among tiled activations.
template <class Call>
void for_tiled_column(const GroupsOnDevice& g, std::int64_t columns, std::int64_t column,
                      const Call& call) {
  const auto groups = g.groups.read();
  const auto order = g.order.read();
  const int count = g.group_count.read()[0];
  for (int i = 0; i < count; ++i)
    for (int token = 0; token < groups[std::size_t(i)].count; ++token)
      call(std::size_t(order[std::size_t(groups[std::size_t(i)].first + token)]),
           std::size_t(i * g.group_tokens * cuda::tiled_columns(columns) +
                       cuda::tiled_index(column, token, g.group_tokens)));
}

bool has_tiles() {
  if (cuda::has_tiled_gemm()) return true;
  WARN("needs compute capability 9.0");
  return false;
}

struct TiledShape {
  std::int64_t columns, rows;
};

void check_tiled_gate_up(QuantFormat f, const GroupsOnDevice& g, bool biased = false,
                         const TiledShape& shape = {512, 256}) {
  const std::int64_t columns = shape.columns, rows = shape.rows;
  const auto width = std::size_t(columns), height = std::size_t(rows);
  const BiasesOnDevice gate_bias(biased, rows, 7), up_bias(biased, rows, 8);
  const auto gates = stack(f, columns, rows), ups = stack(f, columns, rows, 5);
  const PlanesOnDevice gate(gates), up(ups);
  const std::vector<float> values = normal_values(std::size_t(g.tokens) * width, 3);
  const OnDevice<float> x(values);
  const BatchOnDevice halves(values, columns);
  // What stands for tokens that do not exist is NaN.
  const OnDevice<std::uint16_t> tiled(std::vector<std::uint16_t>(tiled_values(g, columns), 0x7E00));
  const OnDevice<std::uint16_t> out(tiled_values(g, rows));
  const Stream stream;
  cuda::tile_groups(stream, g.get(), x.get(), columns, reinterpret_cast<__half*>(tiled.get()));
  cuda::tiled_experts_gate_up({gate.matrix(), gate.stride(), gate_bias.get()},
                              {up.matrix(), up.stride(), up_bias.get()}, g.get(),
                              reinterpret_cast<const __half*>(tiled.get()),
                              reinterpret_cast<__half*>(out.get()), stream, function_of(biased));
  const std::vector<std::uint16_t> there = out.read();
  const std::vector<int> ids = g.ids.read();
  std::vector<std::uint16_t> got;
  std::vector<fixtures::GatedUp> expected;
  std::size_t zeros = 0;
  for (std::int64_t i = rows; i < cuda::tiled_columns(rows); ++i)
    for_tiled_column(g, rows, i, [&](std::size_t, std::size_t at) { zeros += there[at] == 0; });
  CHECK(zeros == g.choices() * std::size_t(cuda::tiled_columns(rows) - rows));
  for (std::int64_t i = 0; i < rows; i += 5) {
    std::vector<WeightRow> gate_rows, up_rows;
    for (std::size_t e = 0; e < std::size_t(kExperts); ++e)
      gate_rows.emplace_back(gates[e], i), up_rows.emplace_back(ups[e], i);
    for_tiled_column(g, rows, i, [&](std::size_t choice, std::size_t at) {
      const auto expert = std::size_t(ids[choice]);
      const double* const row = halves.row(choice / kUsed);
      got.push_back(there[at]);
      const std::size_t of_row = expert * height + std::size_t(i);
      expected.push_back(fixtures::gated_up(gate_bias.plus(gate_rows[expert].times(row), of_row),
                                            up_bias.plus(up_rows[expert].times(row), of_row),
                                            columns, function_of(biased)));
    });
  }
  INFO(info(f).name << ", groups of " << g.group_tokens);
  CHECK(got.size() == (height + 4) / 5 * g.choices());
  CHECK(fixtures::worst_of(got, expected) <= 1);
}

void check_tiled_down(QuantFormat f, const GroupsOnDevice& g, bool biased = false,
                      const TiledShape& shape = {768, 132}) {
  const std::int64_t columns = shape.columns, rows = shape.rows;
  const auto width = std::size_t(columns), height = std::size_t(rows);
  const BiasesOnDevice bias(biased, rows, 7);
  const auto all = stack(f, columns, rows);
  const PlanesOnDevice down(all);
  const BatchOnDevice x(normal_values(g.choices() * width, 3), columns);
  std::vector<std::uint16_t> values(tiled_values(g, columns), 0x7E00);
  for (std::int64_t i = 0; i < cuda::tiled_columns(columns); ++i)
    for_tiled_column(g, columns, i, [&](std::size_t choice, std::size_t at) {
      values[at] = i < columns ? x.fp16[choice * width + std::size_t(i)] : std::uint16_t(0);
    });
  const OnDevice<std::uint16_t> tiled(values);
  const OnDevice<float> out(g.choices() * height);
  const Stream stream;
  cuda::tiled_experts_down({down.matrix(), down.stride(), bias.get()}, g.get(),
                           reinterpret_cast<const __half*>(tiled.get()), out.get(), stream);
  const std::vector<float> got = out.read();
  const std::vector<int> ids = g.ids.read();
  double worst = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    std::vector<WeightRow> of_expert;
    for (const Weights& w : all) of_expert.emplace_back(w, i);
    for (std::size_t choice = 0; choice < g.choices(); ++choice) {
      const auto expert = std::size_t(ids[choice]);
      const BatchProduct p =
          bias.plus(of_expert[expert].times(x.row(choice)), expert * height + std::size_t(i));
      worst = std::max(worst, fixtures::off(got[choice * height + std::size_t(i)], p.value,
                                            fixtures::batch_bound(p, columns)));
    }
  }
  INFO(info(f).name << ", groups of " << g.group_tokens);
  CHECK(worst <= 1);
}

}  // namespace

TEST_CASE("Tiled experts without tokens, with one and with many", "[cuda][sm_90][gpu]") {
  if (!has_tiles()) return;
  using enum QuantFormat;
  const Stream stream;
  for (const int group_tokens : {8, 16, 32, 64}) {
    const GroupsOnDevice g{45, kUsed, kExperts, group_tokens};
    route_as_chosen(g, stream);
    check_groups(g);
    for (const QuantFormat f : {kQ4_K, kQ5_K, kQ6_K, kMXFP4})
      check_tiled_gate_up(f, g), check_tiled_down(f, g);
    check_tiled_gate_up(kMXFP4, g, true), check_tiled_down(kMXFP4, g, true);
  }
}

TEST_CASE("Tiled experts of a long batch", "[cuda][sm_90][gpu]") {
  if (!has_tiles()) return;
  const Stream stream;
  for (const int group_tokens : {32, 64}) {
    const GroupsOnDevice g{137, kUsed, kExperts, group_tokens};
    route_as_chosen(g, stream);
    check_groups(g);
    check_tiled_gate_up(QuantFormat::kQ4_K, g), check_tiled_down(QuantFormat::kQ6_K, g);
  }
}

TEST_CASE("Tiled experts whose rows end within a tile", "[cuda][sm_90][gpu]") {
  if (!has_tiles()) return;
  using enum QuantFormat;
  const Stream stream;
  for (const int group_tokens : {8, 16, 32, 64}) {
    const GroupsOnDevice g{45, kUsed, kExperts, group_tokens};
    route_as_chosen(g, stream);
    for (const QuantFormat f : {kMXFP4, kQ8_0, kQ5_1, kQ4_0})
      for (const TiledShape& shape : {TiledShape{288, 96}, {448, 320}, {736, 448}})
        check_tiled_gate_up(f, g, false, shape), check_tiled_down(f, g, false, shape);
    check_tiled_gate_up(kMXFP4, g, true, {576, 288});
    check_tiled_down(kMXFP4, g, true, {288, 576});
  }
}

TEST_CASE("Experts without tokens, with one and with many", "[cuda][sm_80][gpu]") {
  using enum QuantFormat;
  const Stream stream;
  for (const int group_tokens : {16, 32, 64}) {
    const GroupsOnDevice g{137, kUsed, kExperts, group_tokens};
    route_as_chosen(g, stream);
    check_groups(g);
    const Sorted sorted(g.ids.read(), kExperts);
    REQUIRE(sorted.of_expert[0].empty());
    REQUIRE(sorted.of_expert[1].size() == 1);
    REQUIRE(sorted.of_expert[2].size() == 137);
    for (const QuantFormat f : {kQ4_K, kQ6_K, kQ8_0}) check_gate_up(f, g), check_down(f, g);
    check_gate_up(kMXFP4, g, true), check_down(kMXFP4, g, true);
  }
}

TEST_CASE("Experts in every format that groups take", "[cuda][sm_80][gpu][formats]") {
  using enum QuantFormat;
  const Stream stream;
  const GroupsOnDevice g{20, kUsed, kExperts, 16};
  route_as_chosen(g, stream);
  for (const QuantFormat f :
       {kQ4_0,  kQ4_1,  kQ5_0,    kQ5_1,   kQ5_K,  kQ2_K,    kQ3_K,  kIQ4_NL, kIQ4_XS, kMXFP4,
        kIQ1_S, kIQ1_M, kIQ2_XXS, kIQ2_XS, kIQ2_S, kIQ3_XXS, kIQ3_S, kTQ1_0,  kTQ2_0,  kNVFP4})
    check_gate_up(f, g), check_down(f, g);
}

TEST_CASE("Experts of a small batch, whatever is watched", "[cuda][sm_80][gpu][sanitize]") {
  const Stream stream;
  const GroupsOnDevice g{21, kUsed, kExperts, 16};
  route_as_chosen(g, stream);
  check_groups(g);
  check_gate_up(QuantFormat::kQ4_K, g);
  check_down(QuantFormat::kQ6_K, g);
}
