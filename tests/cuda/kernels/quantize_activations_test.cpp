#include "engine/kernels/cuda/activations/quantize_activations.cuh"

#include <cmath>
#include <limits>

#include "engine/kernels/ref/ops.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/kernels/activations.cuh"
#include "tests/cuda/kernels/layer_norms.cuh"
#include "tests/engine/random_values.hpp"

using namespace rigcast;
using engine::Stream;
namespace cuda = engine::cuda;
namespace ref = engine::ref;
using fixtures::OnDevice;
using fixtures::RoundedOnDevice;
using fixtures::RoundedValues;

namespace {

bool same(const RoundedValues& a, const RoundedValues& b) {
  return a.q == b.q && a.scale == b.scale && a.sum16 == b.sum16;
}

}  // namespace

TEST_CASE("Activations round on the GPU as on the CPU, to the bit", "[cuda][gpu]") {
  const Stream stream;
  for (const int columns : {32, 96, 288, 896, 4096, 14336, 28672, 65536}) {
    INFO(columns);
    constexpr std::size_t kTokens = 3;
    std::vector<float> x =
        engine::fixtures::normal_values(kTokens * std::size_t(columns), unsigned(columns));
    for (std::size_t i = 0; i < 32; ++i) x[i] = float(i) * 4 - 63.5f;  // many ties
    const OnDevice<float> there(x);
    const RoundedOnDevice out(x.size());
    cuda::quantize_tokens({there.get(), columns, int(kTokens)}, out.get(), stream,
                          cuda::Start::kAfter);
    CHECK(same(out.read(), fixtures::rounded_on_cpu(x)));
  }
}

TEST_CASE("Zeros, what is no number and the least numbers round as on the CPU", "[cuda][gpu]") {
  const Stream stream;
  std::vector<float> x(160, 0.0f);
  x[3] = std::numeric_limits<float>::quiet_NaN();
  x[40] = std::numeric_limits<float>::infinity(), x[41] = 5;
  x[64] = std::numeric_limits<float>::denorm_min();
  x[100] = std::numeric_limits<float>::quiet_NaN(), x[101] = -3, x[102] = 1;
  for (std::size_t i = 128; i < 160; ++i) x[i] = std::numeric_limits<float>::max();
  const OnDevice<float> there(x);
  const RoundedOnDevice out(x.size());
  cuda::quantize_tokens({there.get(), 160, 1}, out.get(), stream, cuda::Start::kAfter);
  CHECK(same(out.read(), fixtures::rounded_on_cpu(x)));
}

TEST_CASE("RMS norm and rounding in one", "[cuda][gpu]") {
  const Stream stream;
  for (const int columns : {32, 96, 288, 896, 4096, 14336, 40960, 65536}) {
    constexpr std::size_t kTokens = 2;
    const std::size_t n = std::size_t(columns);
    const std::vector<float> x = engine::fixtures::normal_values(kTokens * n, 3, 7.0f);
    const std::vector<float> weight = engine::fixtures::normal_values(n, 4);
    const OnDevice<float> x_there(x), weight_there(weight), also(x.size());
    const RoundedOnDevice out(x.size());
    cuda::norm_and_quantize({x_there.get(), columns, int(kTokens)}, {weight_there.get(), 1e-5f},
                            out.get(), also.get(), stream, cuda::Start::kEarly);
    const std::vector<float> normed = also.read();
    // Squares and their sum over a thread (4 at a time, up to 16 times) and 10 levels of pairs
    // round at most 32 times; the root halves that. Then mean, eps, root, inverse and two products.
    constexpr double kBound = (32 / 2 + 6) * 0x1p-24;
    std::vector<float> expected(x.size());
    double worst = 0;
    for (std::size_t t = 0; t < kTokens; ++t)
      ref::rms_norm(std::span(x).subspan(t * n, n), weight, 1e-5f,
                    std::span(expected).subspan(t * n, n));
    for (std::size_t i = 0; i < x.size(); ++i)
      worst = std::max(worst, std::abs(double(normed[i]) / double(expected[i]) - 1));
    INFO(columns);
    CHECK(worst <= kBound);
    CHECK(same(out.read(), fixtures::rounded_on_cpu(normed)));
  }
}

TEST_CASE("Norms that subtract the mean, and rounding in one", "[cuda][gpu][traits]") {
  const Stream stream;
  for (const int columns : {32, 288, 4544, 8192, 14336, 65536})
    for (const bool biased : {false, true}) {
      INFO(columns << (biased ? " with" : " without") << " a bias");
      constexpr std::size_t kTokens = 2;
      const std::size_t n = std::size_t(columns);
      std::vector<float> x = engine::fixtures::normal_values(kTokens * n, 3, 7.0f);
      for (float& v : x) v += 5;
      const std::vector<float> weight = engine::fixtures::normal_values(n, 4),
                               bias = engine::fixtures::normal_values(biased ? n : 0, 5);
      const OnDevice<float> x_there(x), weight_there(weight), bias_there(bias), also(x.size());
      const RoundedOnDevice out(x.size());
      const cuda::Norm norm{weight_there.get(), 1e-5f, true, biased ? bias_there.get() : nullptr};
      cuda::norm_and_quantize({x_there.get(), columns, int(kTokens)}, norm, out.get(), also.get(),
                              stream, cuda::Start::kEarly);
      const std::vector<float> normed = also.read();
      double worst = 0;
      for (std::size_t t = 0; t < kTokens; ++t) {
        // Sums as in the test above: at most 32 roundings.
        const std::span<const float> row(x.data() + t * n, n);
        const fixtures::LayerNorm want(row, weight, bias, 1e-5, 32);
        for (std::size_t i = 0; i < n; ++i)
          worst = std::max(worst,
                           std::abs(double(normed[t * n + i]) - want.value[i]) / want.allowed[i]);
      }
      CHECK(worst <= 1);
      CHECK(same(out.read(), fixtures::rounded_on_cpu(normed)));
    }
}

TEST_CASE("A branch is added in the kernel that norms the sum", "[cuda][gpu][traits]") {
  const Stream stream;
  for (const int columns : {32, 288, 3840, 5376, 14336}) {
    const std::size_t n = std::size_t(columns);
    using engine::fixtures::normal_values;
    const std::vector<float> hidden = normal_values(n, 3), branch = normal_values(n, 5, 3.0f),
                             weight = normal_values(n, 4), own = normal_values(n, 6);
    const OnDevice<float> weight_there(weight), own_there(own);
    for (const bool normed : {false, true}) {
      INFO(columns << (normed ? " with" : " without") << " a norm of the branch");
      const OnDevice<float> to(hidden), also(branch);  // the branch is where floats are written
      const RoundedOnDevice out(n);
      const cuda::BranchSum added{
          to.get(), also.get(), {normed ? own_there.get() : nullptr, 1e-5f}, 0.25f, 2};
      cuda::norm_and_quantize({to.get(), columns, 1}, {weight_there.get(), 1e-5f}, out.get(),
                              also.get(), stream, cuda::Start::kEarly, added);
      const std::vector<float> sum = to.read(), floats = also.read();
      std::vector<float> expected = branch;
      if (normed) ref::rms_norm(branch, own, 1e-5f, expected);
      // Of a norm as in the test above; then a product and a sum.
      constexpr double kBound = (32 / 2 + 6) * 0x1p-24;
      double worst = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double part = 0.5 * double(expected[i]), want = 2 * double(hidden[i]) + part;
        const double bound = std::abs(part) * (kBound + 0x1p-23) + std::abs(want) * 0x1p-23;
        worst = std::max(worst, std::abs(double(sum[i]) - want) / bound);
      }
      CHECK(worst <= 1);
      ref::rms_norm(sum, weight, 1e-5f, expected);
      worst = 0;
      for (std::size_t i = 0; i < n; ++i)
        worst = std::max(worst, std::abs(double(floats[i]) / double(expected[i]) - 1));
      CHECK(worst <= kBound);
      CHECK(same(out.read(), fixtures::rounded_on_cpu(floats)));
    }
  }
}

TEST_CASE("A row too wide, or not of 32s, is refused", "[cuda][gpu]") {
  const Stream stream;
  CHECK_THROWS_AS(cuda::quantize_tokens({nullptr, 65568, 1}, {}, stream, cuda::Start::kAfter),
                  std::invalid_argument);
  CHECK_THROWS_AS(cuda::quantize_tokens({nullptr, 33, 1}, {}, stream, cuda::Start::kAfter),
                  std::invalid_argument);
}
