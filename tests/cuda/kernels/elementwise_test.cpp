#include "engine/kernels/cuda/activations/elementwise.cuh"
#include "engine/kernels/cuda/activations/layer_inputs.cuh"
#include "engine/kernels/cuda/activations/mlp_rows.cuh"
#include "engine/kernels/cuda/activations/tile_order.hpp"
#include "engine/kernels/cuda/sampling/argmax.cuh"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "engine/kernels/ref/half.hpp"
#include "engine/kernels/ref/ops.hpp"
#include "engine/run/sampler.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device_data.cuh"
#include "tests/cuda/kernels/gates.cuh"
#include "tests/cuda/kernels/layer_norms.cuh"
#include "tests/engine/random_values.hpp"

namespace rigcast::engine::cuda {
namespace {

using engine::fixtures::normal_values;
using rigcast::fixtures::OnDevice;
using Halves = std::vector<std::uint16_t>;

constexpr double kUnit = 0x1p-24;      // of rounding to F32
constexpr double kHalfUnit = 0x1p-11;  // to half
constexpr double kBfloatUnit = 0x1p-8;
constexpr double kMinHalf = 0x1p-25;  // half a step of subnormal halves

Halves fp16(const std::vector<float>& values) {
  Halves out;
  for (const float v : values) out.push_back(ref::float_to_half(v));
  return out;
}

std::vector<float> from_halves(const Halves& values) {
  std::vector<float> out;
  for (const std::uint16_t v : values) out.push_back(ref::half_to_float(v));
  return out;
}

std::vector<float> from_bfloats(const Halves& values) {
  std::vector<float> out;
  for (const std::uint16_t v : values) out.push_back(ref::bfloat_to_float(v));
  return out;
}

Rows rows_of(const OnDevice<float>& data, std::int64_t stride) {
  return {data.get(), ValueType::kF32, stride};
}
Rows rows_of(const OnDevice<std::uint16_t>& data, std::int64_t stride,
             ValueType type = ValueType::kF16) {
  return {data.get(), type, stride};
}

std::size_t count_of(const Batch& batch) {
  return std::size_t(batch.tokens) * std::size_t(batch.width);
}

// Widths that move 4 values at a time, and one that does not; less than a warp, and several rounds.
const std::vector<Batch> kBatches = {{1, 4096}, {7, 128}, {3, 777}, {2, 5120}, {5, 4}, {1, 16384}};

std::size_t largest_excess(const std::vector<float>& got, const std::vector<double>& expected,
                           const std::vector<double>& bound) {
  std::size_t outside = got.size() != expected.size();
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i)
    outside += !(std::abs(double(got[i]) - expected[i]) <= bound[i]);
  return outside;
}

struct NormCase {
  std::vector<float> x, weight;
  float eps = 1e-5f;
  std::vector<double> expected(const Batch& batch) const {
    std::vector<double> out;
    for (int t = 0; t < batch.tokens; ++t) {
      const float* row = x.data() + std::ptrdiff_t(t) * batch.width;
      double squares = 0;
      for (int i = 0; i < batch.width; ++i) squares += double(row[i]) * double(row[i]);
      const double scale = 1 / std::sqrt(squares / batch.width + double(eps));
      for (int i = 0; i < batch.width; ++i)
        out.push_back(double(row[i]) * scale * double(weight[std::size_t(i)]));
    }
    return out;
  }
};

// The sum of n squares, all positive, in any order: at most n roundings, halved by the root. Mean,
// eps, root, quotient and two products: six more.
std::vector<double> norm_bound(const std::vector<double>& expected, const Batch& batch,
                               double out_unit) {
  std::vector<double> bound;
  for (const double e : expected)
    bound.push_back(std::abs(e) * ((batch.width / 2.0 + 6) * kUnit + out_unit) + kMinHalf);
  return bound;
}

}  // namespace

TEST_CASE("Norms of rows are those of the reference, in every type", "[cuda][gpu]") {
  const Stream stream;
  for (const Batch& batch : kBatches) {
    INFO(batch.tokens << " rows of " << batch.width);
    const NormCase c{normal_values(count_of(batch), 1), normal_values(std::size_t(batch.width), 2)};
    const OnDevice<float> x(c.x), weight(c.weight);
    const Norm norm{weight.get(), c.eps};
    const auto expected = c.expected(batch);
    const OnDevice<float> wide(count_of(batch));
    rms_norm(stream, batch, rows_of(x, batch.width), {}, norm, rows_of(wide, batch.width));
    CHECK(largest_excess(wide.read(), expected, norm_bound(expected, batch, 0)) == 0);
    const OnDevice<std::uint16_t> half(count_of(batch)), bfloat(count_of(batch));
    rms_norm(stream, batch, rows_of(x, batch.width), {}, norm, rows_of(half, batch.width));
    rms_norm(stream, batch, rows_of(x, batch.width), {}, norm,
             rows_of(bfloat, batch.width, ValueType::kBF16));
    CHECK(largest_excess(from_halves(half.read()), expected,
                         norm_bound(expected, batch, kHalfUnit)) == 0);
    CHECK(largest_excess(from_bfloats(bfloat.read()), expected,
                         norm_bound(expected, batch, kBfloatUnit)) == 0);
    CHECK(x.read() == c.x);  // nothing was added
  }
}

TEST_CASE("A norm adds what it is given first, and keeps it", "[cuda][gpu]") {
  const Stream stream;
  for (const Batch& batch : kBatches) {
    INFO(batch.tokens << " rows of " << batch.width);
    const auto x = normal_values(count_of(batch), 3),
               bias = normal_values(std::size_t(batch.width), 5);
    const Halves add = fp16(normal_values(count_of(batch), 4));
    NormCase sum{x, normal_values(std::size_t(batch.width), 6)};
    const auto more = from_halves(add);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float with_add = x[i] + more[i];
      sum.x[i] = with_add + bias[i % std::size_t(batch.width)];
    }
    const OnDevice<float> on_gpu(x), on_gpu_bias(bias), weight(sum.weight);
    const OnDevice<std::uint16_t> on_gpu_add(add), out(count_of(batch));
    const Addition addition{rows_of(on_gpu_add, batch.width), on_gpu_bias.get()};
    rms_norm(stream, batch, rows_of(on_gpu, batch.width), addition, {weight.get(), sum.eps},
             rows_of(out, batch.width));
    const auto expected = sum.expected(batch);
    CHECK(on_gpu.read() == sum.x);
    CHECK(largest_excess(from_halves(out.read()), expected,
                         norm_bound(expected, batch, kHalfUnit)) == 0);
  }
}

TEST_CASE("Norms of rows subtract the mean, behind what is added", "[cuda][gpu][traits]") {
  const Stream stream;
  for (const Batch& batch : kBatches)
    for (const bool biased : {false, true}) {
      INFO(batch.tokens << " rows of " << batch.width);
      const auto width = std::size_t(batch.width);
      auto x = normal_values(count_of(batch), 3, 2), add = normal_values(width, 4);
      const auto weight = normal_values(width, 5), bias = normal_values(width, 6);
      const OnDevice<float> on_gpu(x), on_gpu_add(add), on_gpu_weight(weight), on_gpu_bias(bias),
          out(count_of(batch));
      rms_norm(stream, batch, rows_of(on_gpu, batch.width), {{}, on_gpu_add.get()},
               {on_gpu_weight.get(), 1e-5f, true, biased ? on_gpu_bias.get() : nullptr},
               rows_of(out, batch.width));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += add[i % width];
      CHECK(on_gpu.read() == x);
      const auto got = out.read();
      std::size_t outside = 0;
      for (std::size_t t = 0; t < std::size_t(batch.tokens); ++t) {
        const std::span<const float> none, all(bias);
        const std::span<const float> row(x.data() + t * width, width);
        const rigcast::fixtures::LayerNorm want(row, weight, biased ? all : none, 1e-5,
                                                batch.width);
        for (std::size_t i = 0; i < width; ++i)
          outside += !(std::abs(double(got[t * width + i]) - want.value[i]) <= want.allowed[i]);
      }
      CHECK(outside == 0);
    }
}

TEST_CASE("Norms keep to the rows between gaps", "[cuda][gpu]") {
  const Stream stream;
  const Batch batch{4, 128};
  const std::int64_t x_stride = 200, out_stride = 132;
  const auto x = normal_values(4 * 200, 7);
  const std::vector<float> weight(128, 1.0f);
  const OnDevice<float> on_gpu(x), on_gpu_weight(weight);
  const OnDevice<float> out(4 * 132);
  rms_norm(stream, batch, rows_of(on_gpu, x_stride), {}, {on_gpu_weight.get(), 0.0f},
           rows_of(out, out_stride));
  const auto got = out.read();
  for (std::size_t t = 0; t < 4; ++t) {
    std::vector<float> expected(128);
    ref::rms_norm(std::span(x).subspan(200 * t, 128), weight, 0.0f, expected);
    for (std::size_t i = 0; i < 128; ++i)
      CHECK(double(got[132 * t + i]) == Approx(double(expected[i])).epsilon(70 * kUnit));
    for (std::size_t i = 128; i < 132; ++i) CHECK(std::isnan(got[132 * t + i]));
  }
}

TEST_CASE("Rows of zeros are normed to zeros, and NaN stays", "[cuda][gpu]") {
  const Stream stream;
  std::vector<float> x(2 * 64, 0.0f);
  x[64] = std::numeric_limits<float>::quiet_NaN();
  const OnDevice<float> on_gpu(x), weight(std::vector<float>(64, 1.0f));
  const OnDevice<std::uint16_t> out(2 * 64);
  rms_norm(stream, {2, 64}, rows_of(on_gpu, 64), {}, {weight.get(), 1e-6f}, rows_of(out, 64));
  const auto got = from_halves(out.read());
  CHECK(std::all_of(got.begin(), got.begin() + 64, [](float v) { return v == 0; }));
  CHECK(std::all_of(got.begin() + 64, got.end(), [](float v) { return std::isnan(v); }));
}

TEST_CASE("Rows are added exactly", "[cuda][gpu]") {
  const Stream stream;
  for (const Batch& batch : kBatches) {
    INFO(batch.tokens << " rows of " << batch.width);
    const auto x = normal_values(count_of(batch), 8), add = normal_values(count_of(batch), 9),
               bias = normal_values(std::size_t(batch.width), 10);
    const Halves narrow = fp16(add);
    const OnDevice<float> wide_add(add), on_gpu_bias(bias);
    const OnDevice<std::uint16_t> narrow_add(narrow);
    const auto sum_of = [&](const Addition& addition) {
      const OnDevice<float> on_gpu(x);
      add_rows(stream, batch, rows_of(on_gpu, batch.width), addition);
      return on_gpu.read();
    };
    const auto expected = [&](const std::vector<float>& more, bool with_bias) {
      std::vector<float> out = x;
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (!more.empty()) out[i] += more[i];
        if (with_bias) out[i] += bias[i % std::size_t(batch.width)];
      }
      return out;
    };
    CHECK(sum_of({rows_of(wide_add, batch.width), nullptr}) == expected(add, false));
    CHECK(sum_of({rows_of(wide_add, batch.width), on_gpu_bias.get()}) == expected(add, true));
    CHECK(sum_of({rows_of(narrow_add, batch.width), nullptr}) ==
          expected(from_halves(narrow), false));
    CHECK(sum_of({{}, on_gpu_bias.get()}) == expected({}, true));
    CHECK(sum_of({}) == x);
  }
}

TEST_CASE("Gates are silu or GELU of the one times the other", "[cuda][gpu][traits]") {
  const Stream stream;
  for (const Batch& batch : kBatches) {
    INFO(batch.tokens << " rows of " << batch.width);
    const auto gate = normal_values(count_of(batch), 11, 4),
               up = normal_values(count_of(batch), 12);
    // Gate and up side by side, as in the output of one product.
    std::vector<float> both;
    for (int t = 0; t < batch.tokens; ++t)
      for (const auto* v : {&gate, &up})
        both.insert(both.end(), v->begin() + std::ptrdiff_t(t) * batch.width,
                    v->begin() + std::ptrdiff_t(t + 1) * batch.width);
    const OnDevice<float> wide(both);
    const OnDevice<std::uint16_t> narrow(fp16(both)), out(count_of(batch));
    const auto check = [&](const auto& g, const auto& u, GateFunction function) {
      std::vector<double> expected, bound;
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double x = double(g[i]), y = double(u[i]);
        const double e = rigcast::fixtures::gate_exponent(
            rigcast::fixtures::as_taken(x, y, function).gate, function);
        expected.push_back(rigcast::fixtures::gate_times_up(x, y, function));
        // The fast exponential is within 2 + 1.2 |e| last places, of an argument that is within
        // 7 roundings of e for GELU, and four operations follow at most.
        const double places = 2 * (2 + 1.2 * std::abs(e)) +
                              (function == GateFunction::kSilu ? 0 : 8 * std::abs(e)) + 4;
        bound.push_back(std::abs(expected.back()) * (places * kUnit + kHalfUnit) + kMinHalf);
      }
      CHECK(largest_excess(from_halves(out.read()), expected, bound) == 0);
    };
    const std::int64_t stride = 2 * batch.width;
    for (const GateFunction function :
         {GateFunction::kSilu, GateFunction::kGelu, GateFunction::kClampedSwiglu}) {
      gate_times(stream, batch, rows_of(wide, stride),
                 Rows{wide.get() + batch.width, ValueType::kF32, stride}, rows_of(out, batch.width),
                 function);
      check(gate, up, function);
      gate_times(stream, batch, rows_of(narrow, stride),
                 Rows{narrow.get() + batch.width, ValueType::kF16, stride},
                 rows_of(out, batch.width), function);
      check(from_halves(fp16(gate)), from_halves(fp16(up)), function);
    }
  }
}

TEST_CASE("Gates are clamped to the range of FP16", "[cuda][gpu]") {
  const Stream stream;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const OnDevice<float> gate(std::vector<float>{1e4f, 1e4f, 70000.0f, -200.0f, nan, -1e4f});
  const OnDevice<float> up(std::vector<float>{1e4f, -1e4f, 1.0f, 1.0f, 1.0f, 1.0f});
  const OnDevice<std::uint16_t> out(6);
  gate_times(stream, {1, 6}, rows_of(gate, 6), rows_of(up, 6), rows_of(out, 6));
  const auto got = from_halves(out.read());
  CHECK(got[0] == 65504);
  CHECK(got[1] == -65504);
  CHECK(got[2] == 65504);
  CHECK(got[3] == 0);
  CHECK(std::isnan(got[4]));
  CHECK(got[5] == 0);
}

TEST_CASE("Clamped SwiGLU bounds gate and up, and leaves NaN", "[cuda][gpu][traits]") {
  const Stream stream;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const OnDevice<float> gate(std::vector<float>{100, 7, 7, nan, 1, -100});
  const OnDevice<float> up(std::vector<float>{100, 7, -100, 1, nan, 1});
  const OnDevice<std::uint16_t> out(6);
  gate_times(stream, {1, 6}, rows_of(gate, 6), rows_of(up, 6), rows_of(out, 6),
             GateFunction::kClampedSwiglu);
  const auto got = from_halves(out.read());
  CHECK(got[0] == 56);  // 7 (7 + 1): the gate's factor is 1 - 7e-6
  CHECK(got[1] == got[0]);
  CHECK(got[2] == -42);
  CHECK(std::isnan(got[3]));
  CHECK(std::isnan(got[4]));
  CHECK(got[5] == 0);
}

TEST_CASE("Functions of FFNs without a gate are GELU or xIELU, behind the bias",
          "[cuda][gpu][traits]") {
  const Stream stream;
  const Xielu numbers{1.2f, 0.7f, 0.5f, -1e-6f};
  for (const Batch& batch : {Batch{1, 4096}, Batch{7, 512}, Batch{3, 68}})
    for (const bool is_xielu : {false, true})
      for (const bool biased : {false, true})
        for (const int tiled : {0, 8}) {
          if (tiled > 0 && batch.width % kTileColumns != 0) continue;
          INFO(batch.tokens << " rows of " << batch.width << (is_xielu ? ", xIELU" : ", GELU"));
          const auto width = std::size_t(batch.width);
          const auto x = normal_values(count_of(batch), 13, 3), bias = normal_values(width, 14);
          const OnDevice<float> on_gpu(x), on_gpu_bias(bias);
          const OnDevice<std::uint16_t> out(std::size_t(tiled > 0 ? tiled : batch.tokens) * width);
          apply_mlp(stream, batch,
                    {on_gpu.get(), biased ? on_gpu_bias.get() : nullptr, {is_xielu, numbers}},
                    reinterpret_cast<__half*>(out.get()), tiled);
          const auto got = from_halves(out.read());
          std::size_t outside = 0;
          for (int t = 0; t < batch.tokens; ++t)
            for (std::size_t i = 0; i < width; ++i) {
              const std::size_t from = std::size_t(t) * width + i;
              const float in = biased ? x[from] + bias[i] : x[from];
              const double want = double(is_xielu ? ref::xielu(in, numbers) : ref::gelu(in));
              // Of xIELU's two terms each is below its square or magnitude. GELU's exponent is
              // within 7 roundings, and its exponential within 2 units.
              const double size = std::abs(double(in)),
                           terms = is_xielu ? 1.2 * size * size + size
                                            : std::abs(want) * (1 + 1.6 * size * (1 + size * size));
              const std::size_t at =
                  tiled > 0 ? std::size_t(tiled_index(std::int64_t(i), t, tiled)) : from;
              outside += !(std::abs(double(got[at]) - want) <=
                           std::abs(want) * kHalfUnit + kMinHalf + 10 * kUnit * terms);
            }
          CHECK(outside == 0);
        }
}

TEST_CASE("Results of an FFN without a gate are multiplied by rows at a distance",
          "[cuda][gpu][traits]") {
  constexpr int kTokens = 3, kWidth = 64, kStride = 192;
  const auto x = normal_values(kTokens * kWidth, 13), by = normal_values(kTokens * kStride, 14);
  const OnDevice<float> on_gpu(x), times(by);
  const OnDevice<std::uint16_t> out(x.size()), plain(x.size());
  const Stream stream;
  MlpRows rows{on_gpu.get(), nullptr, {}};
  apply_mlp(stream, {kTokens, kWidth}, rows, reinterpret_cast<__half*>(plain.get()));
  rows.times = times.get() + kWidth;
  rows.times_stride = kStride;
  apply_mlp(stream, {kTokens, kWidth}, rows, reinterpret_cast<__half*>(out.get()));
  const auto got = from_halves(out.read()), alone = from_halves(plain.read());
  std::size_t outside = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = double(alone[i]) * double(by[i / kWidth * kStride + kWidth + i % kWidth]);
    outside += !(std::abs(double(got[i]) - want) <= 3 * std::abs(want) * kHalfUnit + 4 * kMinHalf);
  }
  CHECK(outside == 0);
}

TEST_CASE("Inputs of layers are half a token's own and half made of its embedding",
          "[cuda][gpu][traits]") {
  constexpr int kTokens = 2, kLayers = 6, kWidth = 96;
  const auto made = normal_values(kTokens * kLayers * kWidth, 15, 20),
             own = normal_values(kTokens * kLayers * kWidth, 16),
             weight = normal_values(kWidth, 17);
  const OnDevice<float> there(made), own_there(own), weight_there(weight);
  constexpr float kScale = 0.0625f, kEps = 1e-6f;
  const Stream stream;
  finish_layer_inputs(stream, {there.get(), own_there.get(), kTokens, kLayers, kWidth},
                      weight_there.get(), kEps, kScale);
  const auto got = there.read();
  std::size_t outside = 0;
  for (std::size_t first = 0; first < made.size(); first += kWidth) {
    double squares = 0;
    for (std::size_t i = first; i < first + kWidth; ++i)
      squares += std::pow(double(made[i]) * double(kScale), 2);
    const double normed = double(kScale) / std::sqrt(squares / kWidth + double(kEps));
    for (std::size_t i = first; i < first + kWidth; ++i) {
      const double half = double(made[i]) * normed * double(weight[i - first]),
                   rest = std::sqrt(double(kWidth)) * double(own[i]);
      const double want = std::sqrt(0.5) * (half + rest);
      // Of the norm as above; then products, the sum, and the root of half.
      const double bound = (kWidth / 2.0 + 10) * kUnit * (std::abs(half) + std::abs(rest));
      outside += !(std::abs(double(got[i]) - want) <= bound);
    }
  }
  CHECK(outside == 0);
}

TEST_CASE("A branch is normed and scaled before it is added", "[cuda][gpu][traits]") {
  const Stream stream;
  for (const Batch& batch : kBatches) {
    INFO(batch.tokens << " rows of " << batch.width);
    const NormCase c{normal_values(count_of(batch), 21),
                     normal_values(std::size_t(batch.width), 22)};
    const auto hidden = normal_values(count_of(batch), 23);
    const OnDevice<float> branch(c.x), weight(c.weight);
    for (const bool normed : {false, true}) {
      const OnDevice<float> to(hidden);
      const Norm norm{normed ? weight.get() : nullptr, c.eps};
      add_branch(stream, batch, {to.get(), branch.get(), norm, 0.25f, 2});
      std::vector<double> expected =
          normed ? c.expected(batch) : std::vector<double>(c.x.begin(), c.x.end());
      std::vector<double> bound = norm_bound(expected, batch, 0);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = 2 * (double(hidden[i]) + 0.25 * expected[i]);
        bound[i] = 0.5 * bound[i] + 2 * kUnit * std::abs(expected[i]);
      }
      CHECK(largest_excess(to.read(), expected, bound) == 0);
    }
  }
}

TEST_CASE("Logits are scaled, then bounded", "[cuda][gpu][traits]") {
  const Stream stream;
  const auto logits = normal_values(1001, 24, 40);
  for (const LogitRange& range : std::vector<LogitRange>{{}, {0.125f, 0}, {1, 30}, {0.5f, 20}}) {
    const OnDevice<float> on_gpu(logits);
    bound_logits(stream, on_gpu.get(), std::int64_t(logits.size()), range);
    std::vector<double> expected, bound;
    for (const float logit : logits) {
      const double x = double(logit) * double(range.factor), cap = double(range.cap);
      expected.push_back(cap > 0 ? cap * std::tanh(x / cap) : x);
      bound.push_back(std::abs(expected.back()) * 8 * kUnit);  // tanhf is within 2 last places
    }
    CHECK(largest_excess(on_gpu.read(), expected, bound) == 0);
  }
}

TEST_CASE("Hidden states are scaled", "[cuda][gpu][traits]") {
  const Stream stream;
  auto x = normal_values(1000, 25);
  const OnDevice<float> on_gpu(x);
  scale(stream, on_gpu.get(), 1000, 12.5f);
  for (float& v : x) v *= 12.5f;
  CHECK(on_gpu.read() == x);
}

namespace {

std::int32_t gpu_argmax(const std::vector<float>& logits) {
  const Stream stream;
  const OnDevice<float> on_gpu(logits);
  const OnDevice<ArgmaxState> state(std::vector<ArgmaxState>(1));
  const OnDevice<std::int32_t> id(1);
  const PinnedBuffer pinned(sizeof(std::int32_t));
  // The kernel runs twice: the second time with the state that the first left.
  for (int i = 0; i < 2; ++i) {
    *pinned.as<std::int32_t>() = -1;
    argmax(stream, on_gpu.get(), int(logits.size()), state.get(),
           {id.get(), pinned.on_device<std::int32_t>()});
    stream.wait();
    CHECK(*pinned.as<std::int32_t>() == id.read()[0]);
  }
  return id.read()[0];
}

}  // namespace

TEST_CASE("The likeliest token is the CPU's", "[cuda][gpu]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  for (const std::size_t count : {1u, 31u, 1000u, 32'000u, 128'256u, 151'936u, 262'144u}) {
    INFO(count);
    auto logits = normal_values(count, unsigned(count));
    CHECK(gpu_argmax(logits) == argmax_token(logits));
    // Of equal values the lowest index wins, also across threads and blocks.
    logits[count - 1] = logits[count / 3] = 50.0f;
    CHECK(gpu_argmax(logits) == std::int32_t(count / 3));
    logits[count - 1] = infinity;
    CHECK(gpu_argmax(logits) == std::int32_t(count - 1));
    logits[count / 2] = nan;
    CHECK(gpu_argmax(logits) == kNoToken);
  }
  CHECK(gpu_argmax({-0.0f, 0.0f, -1.0f}) == 0);
  CHECK(gpu_argmax({-5.0f, -0.0f, 0.0f}) == 1);
  CHECK(gpu_argmax({nan, -infinity, nan, -infinity}) == kNoToken);
  CHECK(gpu_argmax({-nan, infinity}) == kNoToken);
  CHECK(gpu_argmax({nan, nan}) == kNoToken);
  CHECK(gpu_argmax({-3.0f, -2.0f, -4.0f}) == 1);
}

TEST_CASE("A result that nobody wants is not written", "[cuda][gpu]") {
  const Stream stream;
  const OnDevice<float> logits(std::vector<float>{1, 3, 2});
  const OnDevice<ArgmaxState> state(std::vector<ArgmaxState>(1));
  argmax(stream, logits.get(), 3, state.get(), {});
  CHECK(state.read()[0].best == 0);
  CHECK(state.read()[0].done == 0);
}

TEST_CASE("The position advances, one kernel after the other", "[cuda][gpu]") {
  const Stream stream;
  const OnDevice<std::int32_t> position(std::vector<std::int32_t>{41});
  for (int i = 0; i < 100; ++i) advance(stream, position.get());
  advance(stream, position.get(), 512);
  CHECK(position.read()[0] == 653);
}

}  // namespace rigcast::engine::cuda
