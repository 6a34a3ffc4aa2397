// Kernels of latent attention against sums in double: rows and queries, products by head, and
// attention over rows that are keys and values at once.

#include "engine/kernels/cuda/latent/latent_attention.cuh"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/latent/head_products.cuh"
#include "engine/kernels/cuda/latent/latent_rows.cuh"
#include "engine/kernels/ref/half.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/kernels/cache_data.cuh"
#include "tests/cuda/kernels/products.cuh"
#include "tests/engine/random_values.hpp"

using namespace rigcast;
using engine::Stream;
namespace cuda = engine::cuda;
namespace ref = engine::ref;
using engine::fixtures::CacheData;
using engine::fixtures::floats_to_halves;
using engine::fixtures::halves_to_floats;
using engine::fixtures::normal_values;
using fixtures::InputOnDevice;
using fixtures::OnDevice;
using fixtures::PlanesOnDevice;
using fixtures::Product;
using fixtures::Weights;

namespace {

std::vector<std::uint16_t> bits_of(const OnDevice<__half>& there) {
  const std::vector<__half> halves = there.read();
  std::vector<std::uint16_t> bits(halves.size());
  std::memcpy(bits.data(), halves.data(), 2 * halves.size());
  return bits;
}

OnDevice<__half> on_device(const std::vector<std::uint16_t>& bits) {
  OnDevice<__half> there(bits.size());
  RIGCAST_CUDA_CALL(cudaMemcpy(there.get(), bits.data(), 2 * bits.size(), cudaMemcpyHostToDevice));
  return there;
}

void check_heads(QuantFormat f, std::int64_t columns, int rows_of_head, int heads) {
  const Weights w(f, columns, rows_of_head * heads, 5);
  const PlanesOnDevice there(w);
  const InputOnDevice x(normal_values(std::size_t(columns * heads), 3));
  const auto rows = std::size_t(rows_of_head * heads);
  const int stride = rows_of_head + 64;
  const OnDevice<float> floats(rows);
  const OnDevice<__half> halves(std::size_t(stride * heads));
  const fixtures::RoundedOnDevice quantized(rows);
  const Stream stream;
  cuda::multiply_heads({there.matrix(), rows_of_head}, x.get(),
                       {{quantized.get(), floats.get()}, halves.get(), stride}, stream,
                       cuda::Start::kEarly);
  const std::vector<float> got = floats.read();
  const std::vector<float> narrow = halves_to_floats(bits_of(halves));
  double worst = 0;
  bool same = true;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t head = i / std::size_t(rows_of_head), of_head = i % std::size_t(rows_of_head);
    const std::size_t at = head * std::size_t(columns);
    const Product p = fixtures::product(w, std::int64_t(i), [&](std::size_t j) {
      return fixtures::needs_floats(f) ? double(x.x[at + j]) : x.quantized.value(at + j);
    });
    worst = std::max(worst, fixtures::off(got[i], p.value, fixtures::bound(p, f, columns)));
    same &= narrow[head * std::size_t(stride) + of_head] ==
            ref::half_to_float(ref::float_to_half(got[i]));
  }
  INFO(fixtures::named(f, columns, rows_of_head) << ", " << heads << " heads");
  CHECK(worst <= 1);
  CHECK(same);
  const fixtures::RoundedValues expected = fixtures::rounded_on_cpu(got),
                                rounded = quantized.read();
  CHECK((rounded.q == expected.q && rounded.scale == expected.scale));
}

}  // namespace

TEST_CASE("Heads have rows and inputs of their own", "[cuda][gpu][traits][latent]") {
  using enum QuantFormat;
  for (const QuantFormat f : {kF16, kF32, kBF16, kQ8_0, kQ5_0, kQ4_0}) {
    check_heads(f, 128, 512, 16);
    check_heads(f, 192, 96, 5);
    check_heads(f, 32, 64, 4);
  }
  for (const QuantFormat f : {kQ4_K, kQ5_K, kQ6_K, kIQ4_XS}) check_heads(f, 512, 128, 20);
}

namespace {

struct LatentCase {
  int heads = 16, rank = 512, turned = 64, tokens = 100;
  QuantFormat type = QuantFormat::kF16;
  int block_tokens = 128;
};

// Attention in double: of one row's query of each head to tokens [0, seen).
std::vector<double> expected_output(const LatentCase& c, const CacheData& cache,
                                    const std::vector<float>& queries, std::size_t row, int seen) {
  const auto width = std::size_t(c.rank + c.turned);
  std::vector<double> out;
  for (int head = 0; head < c.heads; ++head) {
    const float* q = queries.data() + (row * std::size_t(c.heads) + std::size_t(head)) * width;
    std::vector<double> weights;
    double largest = -INFINITY, sum = 0;
    for (int t = 0; t < seen; ++t) {
      double score = 0;
      for (std::size_t i = 0; i < width; ++i) score += double(q[i]) * double(cache.key(0, t)[i]);
      weights.push_back(score);
      largest = std::max(largest, score);
    }
    for (double& w : weights) sum += w = std::exp2(w - largest);
    for (int i = 0; i < c.rank; ++i) {
      double mixed = 0;
      for (int t = 0; t < seen; ++t)
        mixed += weights[std::size_t(t)] * double(cache.key(0, t)[std::size_t(i)]);
      out.push_back(mixed / sum);
    }
  }
  return out;
}

// Scores are sums of rank + turned products in F32, probabilities are rounded to F16, and so is the
// output of one part.
double allowed_error(const LatentCase& c) {
  const double largest_score = 40, width = c.rank + c.turned;
  return (width * 0x1p-24 * largest_score + 2 * 0x1p-11) * 4;  // of values of about 4 at most
}

// Rows at the ends of contexts of different lengths, of one sequence.
void check_attention(const LatentCase& c, const std::vector<int>& positions, int splits,
                     int wanted) {
  const CacheData cache({.kv_heads = 1,
                         .dim = c.rank + c.turned,
                         .tokens = c.tokens,
                         .k = c.type,
                         .block_tokens = c.block_tokens,
                         .order = 3});
  const std::size_t rows = positions.size(), heads = std::size_t(c.heads),
                    width = std::size_t(c.rank + c.turned), rank = std::size_t(c.rank);
  const auto bits = floats_to_halves(normal_values(rows * heads * width, 7, 0.1f));
  const std::vector<float> queries = halves_to_floats(bits);
  const OnDevice<__half> queries_there = on_device(bits);
  const OnDevice<int> positions_there(positions);
  const OnDevice<int> sequences(std::vector<int>(rows, 0));
  const std::size_t parts = rows * std::size_t(splits) * heads;
  const OnDevice<float> m(parts), l(parts), o(parts * rank);
  const OnDevice<__half> merged(rows * heads * rank), whole(rows * heads * rank);
  const Stream stream;
  const cuda::LatentAttention attention{queries_there.get(), int(rows), c.heads, c.rank, 0};
  const cuda::StepRows step{positions_there.get(), sequences.get()};
  const cuda::Partials partials{m.get(), l.get(), o.get()};
  cuda::attend_latent(stream, attention, cache.on_device(), CacheData::kLayer, splits, wanted, step,
                      partials);
  cuda::merge_rows(stream, partials, int(rows), splits, c.heads, c.rank, {merged.get()});
  cuda::attend_latent_whole(stream, attention, cache.on_device(), CacheData::kLayer, step,
                            whole.get());
  const std::vector<float> of_parts = halves_to_floats(bits_of(merged)),
                           at_once = halves_to_floats(bits_of(whole));
  double worst = 0, worst_at_once = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto want = expected_output(c, cache, queries, row, positions[row] + 1);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::size_t at = row * heads * rank + i;
      worst = std::max(worst, fixtures::off(of_parts[at], want[i], allowed_error(c)));
      worst_at_once =
          std::max(worst_at_once, fixtures::off(at_once[at], want[i], allowed_error(c)));
    }
  }
  INFO(c.heads << " heads of " << c.rank << " + " << c.turned << ", " << info(c.type).name << ", "
               << splits << " splits");
  CHECK(worst <= 1);
  CHECK(worst_at_once <= 1);
}

}  // namespace

TEST_CASE("Latent attention in splits, and at once", "[cuda][gpu][traits][latent]") {
  using enum QuantFormat;
  check_attention({}, {99}, 4, 0);
  check_attention({.tokens = 1000}, {999, 0, 31, 32, 500}, 7, 0);
  check_attention({.heads = 20, .tokens = 333, .block_tokens = 16}, {332, 100}, 11, 0);
  check_attention({.heads = 4, .rank = 64, .turned = 32, .tokens = 200}, {199, 63, 64}, 3, 0);
  check_attention({.heads = 128, .rank = 256, .tokens = 70}, {69}, 2, 0);
  // Splits of a step: as long as the longest context wants.
  check_attention({.tokens = 1000}, {999, 3, 600}, 8, 16);
  check_attention({.heads = 1, .tokens = 40}, {39, 20}, 1, 1);
  for (const QuantFormat type : {kQ8_0, kQ4_0}) {
    check_attention({.tokens = 300, .type = type}, {299, 17}, 3, 0);
    check_attention({.heads = 4, .rank = 64, .turned = 32, .tokens = 90, .type = type}, {89}, 1, 0);
  }
}

namespace {

std::vector<double> turned_by(const std::vector<float>& x, std::size_t first, int turned,
                              const std::vector<cuda::RopeAngle>& angles, std::size_t token,
                              engine::RopePairs pairs) {
  const int half = turned / 2;
  std::vector<double> out(static_cast<std::size_t>(turned));
  for (int i = 0; i < half; ++i) {
    const bool neox = pairs == engine::RopePairs::kNeox;
    const auto a = std::size_t(neox ? i : 2 * i), b = std::size_t(neox ? i + half : 2 * i + 1);
    const cuda::RopeAngle angle = angles[token * std::size_t(half) + std::size_t(i)];
    out[a] = double(x[first + a]) * double(angle.cos) - double(x[first + b]) * double(angle.sin);
    out[b] = double(x[first + a]) * double(angle.sin) + double(x[first + b]) * double(angle.cos);
  }
  return out;
}

// Of several tokens: queries as F16, and rows in the cache.
void check_rows(QuantFormat type, engine::RopePairs pairs, int heads, int rank, int plain,
                int turned) {
  constexpr int kTokens = 5, kFirst = 14;  // in two blocks
  const CacheData cache({.kv_heads = 1,
                         .dim = rank + turned,
                         .tokens = kFirst + kTokens,
                         .k = type,
                         .block_tokens = 16});
  const auto row = std::size_t(rank + turned), query = std::size_t(heads * (plain + turned));
  const std::size_t stride = query + row;
  const std::vector<float> projected = normal_values(kTokens * stride, 4);
  const std::vector<float> norm = normal_values(std::size_t(rank), 5);
  std::vector<cuda::RopeAngle> angles;
  for (int i = 0; i < kTokens * turned / 2; ++i)
    angles.push_back({std::cos(float(i)), std::sin(float(i))});
  const OnDevice<float> projected_there(projected), norm_there(norm);
  const OnDevice<cuda::RopeAngle> angles_there(angles);
  const OnDevice<int> position(std::vector<int>{kFirst});
  const OnDevice<__half> queries(std::size_t(kTokens * heads) * row),
      plain_there(std::size_t(kTokens * heads * plain));
  cuda::LatentRows rows;
  rows.widths = {heads, rank, plain, turned};
  rows.queries = projected_there.get();
  rows.rows = projected_there.get() + query;
  rows.query_stride = rows.row_stride = std::int64_t(stride);
  rows.norm = norm_there.get();
  rows.norm_eps = 1e-6f;
  rows.pairs = pairs;
  rows.rope_cos_sin = angles_there.get();
  rows.query_scale = 0.125f;
  const Stream stream;
  cuda::place_latent_rows(stream, rows, cache.on_device(), CacheData::kLayer, kTokens,
                          {position.get()}, {queries.get(), plain_there.get(), {}});
  const std::vector<float> got = halves_to_floats(bits_of(queries)),
                           got_plain = halves_to_floats(bits_of(plain_there));
  const std::vector<std::byte> memory = cache.read();
  double worst = 0, worst_row = 0;
  const auto near = [](double want) { return 0x1p-11 * std::abs(want) + 1e-5; };
  for (std::size_t t = 0; t < kTokens; ++t) {
    for (std::size_t h = 0; h < std::size_t(heads); ++h) {
      const std::size_t from = t * stride + h * std::size_t(plain + turned);
      const std::size_t to = (t * std::size_t(heads) + h);
      for (std::size_t i = 0; i < std::size_t(plain); ++i) {
        const double want = double(projected[from + i]) * 0.125;
        worst = std::max(worst,
                         fixtures::off(got_plain[to * std::size_t(plain) + i], want, near(want)));
      }
      const auto tail = turned_by(projected, from + std::size_t(plain), turned, angles, t, pairs);
      for (std::size_t i = 0; i < tail.size(); ++i) {
        const double want = tail[i] * 0.125;
        worst =
            std::max(worst, fixtures::off(got[to * row + std::size_t(rank) + i], want, near(want)));
      }
    }
    const std::size_t from = t * stride + query;
    double squares = 0;
    for (std::size_t i = 0; i < std::size_t(rank); ++i)
      squares += double(projected[from + i]) * double(projected[from + i]);
    std::vector<double> want;
    for (std::size_t i = 0; i < std::size_t(rank); ++i)
      want.push_back(double(projected[from + i]) / std::sqrt(squares / rank + 1e-6) *
                     double(norm[i]));
    const auto tail = turned_by(projected, from + std::size_t(rank), turned, angles, t, pairs);
    want.insert(want.end(), tail.begin(), tail.end());
    std::vector<float> stored(row);
    ref::dequantize(type, cache.row(memory, 0, kFirst + int(t), false), stored);
    // Of a block of 32 the largest is near 3: a step of Q8_0 is 1/127 of it, of Q4_0 an eighth.
    const double step = type == QuantFormat::kF16    ? 0
                        : type == QuantFormat::kQ8_0 ? 5.0 / 127
                                                     : 5.0 / 8;
    for (std::size_t i = 0; i < row; ++i)
      worst_row = std::max(worst_row, fixtures::off(stored[i], want[i], step + near(want[i])));
  }
  INFO(heads << " heads, " << info(type).name);
  CHECK(worst <= 1);
  CHECK(worst_row <= 1);
}

}  // namespace

TEST_CASE("Rows of latent attention are normed, turned and stored", "[cuda][gpu][traits][latent]") {
  using enum QuantFormat;
  for (const engine::RopePairs pairs :
       {engine::RopePairs::kInterleaved, engine::RopePairs::kNeox}) {
    for (const QuantFormat type : {kF16, kQ8_0, kQ4_0}) check_rows(type, pairs, 16, 512, 128, 64);
    check_rows(kF16, pairs, 3, 64, 32, 32);
    check_rows(kF16, pairs, 20, 256, 192, 64);
  }
}

TEST_CASE("Widths of latent attention that kernels do not go through are refused",
          "[cuda][gpu][latent]") {
  CHECK(cuda::latent_splits(1, 16, 132) == 1);
  CHECK(cuda::latent_splits(512, 16, 132) == 16);
  CHECK(cuda::latent_splits(1 << 20, 16, 132) == 264);
  CHECK(cuda::latent_splits(1 << 20, 128, 132) == 33);
  const OnDevice<__half> queries(1);
  const Stream stream;
  cuda::Cache cache;
  cache.kv_heads = 1;
  cache.head_dim = 96 + 64;
  CHECK_THROWS_AS(
      cuda::attend_latent(stream, {queries.get(), 1, 16, 96, 0}, cache, 0, 1, 0, {}, {}),
      std::invalid_argument);
}
