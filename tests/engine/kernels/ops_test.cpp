#include "engine/kernels/ref/ops.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kernels/ref/quantize.hpp"
#include "tests/catch.hpp"

namespace rigcast::engine::ref {
namespace {

using Vector = std::vector<float>;

// One rounding to F32 of a value near `magnitude`.
double last_place(double magnitude) { return std::ldexp(std::abs(magnitude), -23); }

Vector random_vector(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Vector v(n);
  for (float& x : v) x = normal(random);
  return v;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double(a[i]) * double(b[i]);
  return sum;
}

Vector turned(Vector head, std::int64_t position, const Rotation& r) {
  rope(head, position, r);
  return head;
}

}  // namespace

TEST_CASE("RMS norm of 3 and 4 divides by the root of 12.5", "[ops]") {
  Vector x = {3, 4};
  rms_norm(x, Vector{1, 2}, 0, x);
  CHECK(double(x[0]) == Approx(3 / std::sqrt(12.5)).margin(last_place(1)));
  CHECK(double(x[1]) == Approx(2 * 4 / std::sqrt(12.5)).margin(last_place(4)));
  Vector zeros(4);
  rms_norm(zeros, Vector(4, 1), 1e-5f, zeros);
  CHECK(zeros == Vector(4, 0));
  Vector eps = {1, 1};
  rms_norm(eps, Vector{1, 1}, 3, eps);  // 1 / sqrt(1 + 3)
  CHECK(eps == Vector{0.5f, 0.5f});
}

TEST_CASE("A matrix's rows are the outputs", "[ops]") {
  const Vector weights = {1, 2, 3, -1, 0, 0.5f};
  const Matrix m{reinterpret_cast<const std::byte*>(weights.data()), QuantFormat::kF32, 3, 2};
  Vector y(2);
  matvec(m, Vector{10, 100, 1000}, y);
  CHECK(y == Vector{3210, 490});
}

TEST_CASE("A quantised matrix is what its rows decode to", "[ops]") {
  const Vector values = random_vector(256 * 3, 1);
  const Vector x = random_vector(256, 2);
  std::vector<std::byte> blocks(144 * 3);
  quantize(QuantFormat::kQ4_K, values, blocks.data());
  Vector back(values.size());
  dequantize(QuantFormat::kQ4_K, blocks.data(), back);
  Vector y(3);
  matvec({blocks.data(), QuantFormat::kQ4_K, 256, 3}, x, y);
  for (std::size_t i = 0; i < 3; ++i) {
    const Vector row(back.begin() + std::ptrdiff_t(256 * i),
                     back.begin() + std::ptrdiff_t(256 * (i + 1)));
    CHECK(y[i] == float(dot(row, x)));
  }
}

TEST_CASE("Position 0 does not turn, and turning keeps lengths", "[ops]") {
  const Vector head = random_vector(64, 3);
  for (const RopePairs pairs : {RopePairs::kInterleaved, RopePairs::kNeox}) {
    const Rotation r{pairs, 64, 10000, 1, {}};
    CHECK(turned(head, 0, r) == head);
    const Vector far = turned(head, 1000, r);
    CHECK(far != head);
    CHECK(dot(far, far) == Approx(dot(head, head)).epsilon(1e-6));
  }
}

TEST_CASE("Pairs turn by their own angles", "[ops]") {
  // Four dimensions of base 100: angles of position 3 are 3 and 3 * 100^(-1/2) = 0.3.
  const Vector head = {1, 0, 0, 2, 7};
  const float c = float(std::cos(3.0)), s = float(std::sin(3.0));
  const float c2 = float(2 * std::cos(0.3)), s2 = float(-2 * std::sin(0.3));
  // Neighbours (1, 0) and (0, 2); the fifth stays.
  CHECK(turned(head, 3, {RopePairs::kInterleaved, 4, 100, 1, {}}) == Vector{c, s, s2, c2, 7});
  // Halves: (1, 0) of elements 0 and 2, (0, 2) of 1 and 3.
  CHECK(turned(head, 3, {RopePairs::kNeox, 4, 100, 1, {}}) == Vector{c, s2, s, c2, 7});
}

TEST_CASE("Only the distance of two positions counts", "[ops]") {
  const Vector q = random_vector(32, 4);
  const Vector k = random_vector(32, 5);
  for (const RopePairs pairs : {RopePairs::kInterleaved, RopePairs::kNeox}) {
    const Rotation r{pairs, 32, 10000, 1, {}};
    const double near = dot(turned(q, 7, r), turned(k, 3, r));
    CHECK(dot(turned(q, 104, r), turned(k, 100, r)) == Approx(near).margin(1e-5));
    CHECK(std::abs(dot(turned(q, 8, r), turned(k, 3, r)) - near) > 1e-3);
  }
}

TEST_CASE("Linear scaling moves positions, factors slow frequencies", "[ops]") {
  const Vector head = random_vector(8, 6);
  const Rotation plain{RopePairs::kNeox, 8, 10000, 1, {}};
  CHECK(turned(head, 12, {RopePairs::kNeox, 8, 10000, 0.25f, {}}) == turned(head, 3, plain));
  const Vector fours(4, 4);
  CHECK(turned(head, 12, {RopePairs::kNeox, 8, 10000, 1, fours}) == turned(head, 3, plain));
  // A factor of its own for each pair: one so large that pair 2 stays.
  const Vector factors = {1, 1, 1e30f, 1};
  const Vector out = turned(head, 12, {RopePairs::kNeox, 8, 10000, 1, factors});
  const Vector all = turned(head, 12, plain);
  CHECK(out == Vector{all[0], all[1], head[2], all[3], all[4], all[5], head[6], all[7]});
}

TEST_CASE("Softmax sums to 1 and bears any size", "[ops]") {
  Vector x = {0, std::log(3.0f)};
  softmax(x);
  CHECK(double(x[0]) == Approx(0.25).margin(1e-7));
  CHECK(double(x[1]) == Approx(0.75).margin(1e-7));
  Vector large = {1e30f, 1e30f, -1e30f};
  softmax(large);
  CHECK(large == Vector{0.5f, 0.5f, 0});
}

TEST_CASE("SiLU at 0, 1 and far out", "[ops]") {
  CHECK(silu(0) == 0);
  CHECK(double(silu(1)) == Approx(1 / (1 + std::exp(-1.0))).margin(1e-7));
  CHECK(silu(100) == 100);
  CHECK(silu(-1000) == 0);
}

TEST_CASE("GELU by tanh at 0, 1 and far out, and soft caps", "[ops]") {
  CHECK(gelu(0) == 0);
  // sqrt(2 / pi) * 1.044715 = 0.83356, whose tanh is 0.68238.
  CHECK(double(gelu(1)) == Approx(0.841192).margin(1e-6));
  CHECK(double(gelu(-1)) == Approx(0.841192 - 1).margin(1e-6));
  CHECK(gelu(100) == 100);
  CHECK(gelu(-100) == 0);
  CHECK(double(soft_cap(15, 30)) == Approx(30 * std::tanh(0.5)));
  CHECK(soft_cap(1e30f, 30) == 30);
  CHECK(soft_cap(-7, 0) == -7);
}

TEST_CASE("Attention of two tokens by hand", "[ops]") {
  // Scores: 2 * 1 / sqrt(4) = 1 and 2 * -1 / sqrt(4) = -1: weights e / (e + 1/e) and the rest.
  const Vector keys = {1, 0, 0, 0, 99, -1, 0, 0, 0, 99};  // a stride of 5
  const Vector values = {1, 2, 3, 4, 99, 5, 6, 7, 8, 99};
  const Vector query = {2, 0, 0, 0};
  Vector out(4);
  attend(query, {keys.data(), values.data(), 5}, 0, 2, {0.5f}, out);
  const double second = 1 / (1 + std::exp(2.0));
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(double(out[i]) == Approx(double(i) + 1 + 4 * second).margin(1e-6));
  attend(query, {keys.data(), values.data(), 5}, 1, 2, {0.5f}, out);
  CHECK(out == Vector{5, 6, 7, 8});
  // Scores of 1 and -1 that are bounded by 2: 2 tanh(1 / 2) and its negative.
  attend(query, {keys.data(), values.data(), 5}, 0, 2, {0.5f, 2.0f}, out);
  const double bounded = 1 / (1 + std::exp(4 * std::tanh(0.5)));
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(double(out[i]) == Approx(double(i) + 1 + 4 * bounded).margin(1e-6));
}

TEST_CASE("Experts are the likeliest, the first of equals, with their probabilities", "[ops]") {
  // Probabilities 1/8, 4/8, 1/8, 2/8.
  const Vector logits = {0, std::log(4.0f), 0, std::log(2.0f)};
  const auto all = choose_experts(logits, 3, {.normalised = false});
  REQUIRE(all.size() == 3);
  CHECK(all[0].expert == 1);
  CHECK(all[1].expert == 3);
  CHECK(all[2].expert == 0);
  CHECK(double(all[0].weight) == Approx(0.5).margin(1e-7));
  CHECK(double(all[1].weight) == Approx(0.25).margin(1e-7));
  const auto normalised = choose_experts(logits, 2, {});
  CHECK(double(normalised[0].weight) == Approx(2.0 / 3).margin(1e-7));
  CHECK(double(normalised[1].weight) == Approx(1.0 / 3).margin(1e-7));
  const auto far = choose_experts(Vector{0, -500, -400}, 3, {});
  CHECK(far[1].expert == 2);  // both probabilities round to 0
}

TEST_CASE("A bias moves the choice of experts alone, and a scale their weights", "[ops]") {
  // Sigmoids 1/2, 3/4, 2/3, 1/5.
  const Vector logits = {0, std::log(3.0f), std::log(2.0f), -std::log(4.0f)};
  const Vector bias = {0, -0.2f, 0, 0.5f};  // 0.5, 0.55, 0.667, 0.7
  const auto chosen =
      choose_experts(logits, 3, {.sigmoid = true, .normalised = false, .scale = 2}, bias);
  CHECK(chosen[0].expert == 3);
  CHECK(chosen[1].expert == 2);
  CHECK(chosen[2].expert == 1);
  CHECK(double(chosen[0].weight) == Approx(2.0 / 5).margin(1e-6));
  CHECK(double(chosen[2].weight) == Approx(2 * 0.75).margin(1e-6));
  const auto normalised = choose_experts(logits, 2, {.sigmoid = true}, bias);
  CHECK(double(normalised[0].weight) == Approx(0.2 / (0.2 + 2.0 / 3)).margin(1e-6));
  // Sums that round to 0 do not divide by it.
  const auto none = choose_experts(Vector{-100, -200}, 2, {.sigmoid = true});
  CHECK(none[0].weight < 1e-30f);
}

TEST_CASE("Experts are those of the groups whose two best are best", "[ops]") {
  // Sigmoids of the groups: 0.9 0.1 0.1, 0.6 0.6 0.1, 0.7 0.4 0.3.
  Vector logits;
  for (const double p : {0.9, 0.1, 0.1, 0.6, 0.6, 0.1, 0.7, 0.4, 0.3})
    logits.push_back(float(std::log(p / (1 - p))));
  const ExpertRouting routing{.sigmoid = true, .groups = 3, .groups_used = 2};
  const auto chosen = choose_experts(logits, 4, routing);
  CHECK(chosen[0].expert == 6);
  CHECK(chosen[1].expert == 3);
  CHECK(chosen[2].expert == 4);
  CHECK(chosen[3].expert == 7);
}

TEST_CASE("A NaN among the router's logits is chosen last, with no weight", "[ops]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto chosen = choose_experts(Vector{nan, 1, 2}, 3, {});
  CHECK(chosen[0].expert == 2);
  CHECK(chosen[1].expert == 1);
  CHECK(chosen[2].expert == 0);
  CHECK(chosen[2].weight == 0);
}

}  // namespace rigcast::engine::ref
