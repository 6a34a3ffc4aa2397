#include "engine/kernels/cuda/activations/quantize_activations.cuh"

#include <cmath>
#include <limits>

#include "engine/kernels/ref/ops.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/kernels/activations.cuh"
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

TEST_CASE("A row too wide, or not of 32s, is refused", "[cuda][gpu]") {
  const Stream stream;
  CHECK_THROWS_AS(cuda::quantize_tokens({nullptr, 65568, 1}, {}, stream, cuda::Start::kAfter),
                  std::invalid_argument);
  CHECK_THROWS_AS(cuda::quantize_tokens({nullptr, 33, 1}, {}, stream, cuda::Start::kAfter),
                  std::invalid_argument);
}
